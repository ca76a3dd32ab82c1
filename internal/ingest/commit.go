// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"errors"

	"synchronizer"
)

// commit writes items into the store, in one transaction unless one of them is
// refused by the database: then the batch is halved until that one stands alone
// and gets its refusal. It returns what has to be asked.
func (i *Ingester) commit(ctx context.Context, items []item) (questions, error) {
	var asks questions
	var refused error
	err := i.persist(ctx, "store", "writing records", func(ctx context.Context) error {
		start := i.Now()
		var err error
		asks, err = i.transact(ctx, items)
		i.metrics.transaction.Observe(i.Now().Sub(start).Seconds())
		if errors.Is(err, synchronizer.ErrInvalid) {
			refused, err = err, nil
		}
		if err == nil {
			i.written.Store(i.Now().UnixNano())
			i.health.answered()
		}
		return err
	})
	switch {
	case err != nil:
		return questions{}, err
	case refused == nil:
		return asks, nil
	case len(items) == 1:
		items[0].refusal = refused
		return questions{}, nil
	}
	// Halves keep the order of each object: the first is committed before the
	// second is begun.
	half := len(items) / 2
	first, err := i.commit(ctx, items[:half])
	if err != nil {
		return questions{}, err
	}
	second, err := i.commit(ctx, items[half:])
	if err != nil {
		return questions{}, err
	}
	return questions{append(first.objects, second.objects...), append(first.exact, second.exact...)}, nil
}

// questions are what a batch leaves open.
type questions struct {
	objects []synchronizer.Message   // to be asked for one by one
	exact   []synchronizer.ObjectKey // to be listed, see object.escalate
}

// plan is what a transaction reads before it folds.
type plan struct {
	sources   []synchronizer.ClusterSource
	sourceOf  map[synchronizer.ClusterSource]int
	keys      []synchronizer.ObjectKey
	bodies    []bool // whether the row's body is needed: only a patch does
	keyOf     map[synchronizer.ObjectKey]int
	connected []synchronizer.ClientSeen
	reports   []int // items that are about events
	sentinels []int // items that are answers to sentinels
}

// makePlan collects the sources in order of appearance (which becomes their
// order in time) and the keys.
func (i *Ingester) makePlan(items []item) plan {
	p := plan{
		sourceOf: make(map[synchronizer.ClusterSource]int),
		keyOf:    make(map[synchronizer.ObjectKey]int, len(items)),
		keys:     make([]synchronizer.ObjectKey, 0, len(items)),
		bodies:   make([]bool, 0, len(items)),
	}
	for k := range items {
		m := &items[k].msg
		if items[k].fault != nil {
			continue
		}
		switch {
		case m.Event.AboutObject() && m.Event != synchronizer.EventGet && i.appends(m.Kind):
			p.addSource(&items[k])
			p.reports = append(p.reports, k)
		case isSentinel(m):
			p.addSource(&items[k])
			p.sentinels = append(p.sentinels, k)
		case m.Event.AboutObject() && m.Event != synchronizer.EventGet:
			p.addSource(&items[k])
			key := m.Key()
			at, known := p.keyOf[key]
			if !known {
				at = len(p.keys)
				p.keyOf[key] = at
				p.keys, p.bodies = append(p.keys, key), append(p.bodies, false)
			}
			p.bodies[at] = p.bodies[at] || m.Event == synchronizer.EventPatch
		case m.Event == synchronizer.EventServerConnected:
			p.addSource(&items[k])
		case m.Event == synchronizer.EventConnectedClients && m.Clients != nil:
			for _, c := range m.Clients.Clients {
				// One that no database has room for must not take the others with it.
				if c.ClusterID.Validate() == nil && len(c.Account)+len(c.Cluster) <= mostName {
					p.connected = append(p.connected, synchronizer.ClientSeen{ConnectedClient: c, At: i.Now()})
				}
			}
		}
	}
	return p
}

// mostName is how many bytes account and cluster, a source, a kind, or namespace and
// name may have. Kubernetes allows about a third of it.
const mostName = 1024

func (p *plan) addSource(it *item) {
	source := it.source()
	if it.place != "" { // of what was said before the first ServerConnected
		p.add(synchronizer.ClusterSource{ClusterID: source.ClusterID, Source: it.place})
	}
	p.add(source)
}

func (p *plan) add(source synchronizer.ClusterSource) {
	if _, known := p.sourceOf[source]; !known {
		p.sourceOf[source] = len(p.sources)
		p.sources = append(p.sources, source)
	}
}

// order places what an item says.
func (p *plan) order(it *item, generations []int64) synchronizer.Order {
	return synchronizer.Order{Generation: generations[p.sourceOf[it.source()]], Seq: it.msg.Seq}
}

// transact folds items into the store in one transaction.
func (i *Ingester) transact(ctx context.Context, items []item) (questions, error) {
	p := i.makePlan(items)
	objects := make([]object, len(p.keys))
	var f folder
	var asked []synchronizer.Message // about events
	err := i.Store.Update(ctx, func(tx synchronizer.Tx) error {
		generations, err := tx.Generations(ctx, p.sources)
		if err != nil {
			return err
		}
		rows, err := tx.Rows(ctx, p.keys, p.bodies)
		if err != nil {
			return err
		}
		floors, err := i.floors(ctx, tx, p.keys, rows)
		if err != nil {
			return err
		}
		for k := range objects {
			objects[k] = object{row: rows[k], floor: floors[kindOf(&p.keys[k])]}
		}
		f = folder{now: i.Now(), offers: i.offers}
		for k := range items {
			it := &items[k]
			if it.fault != nil {
				continue
			}
			m := &it.msg
			switch at, about := p.keyOf[m.Key()]; {
			case m.Event.AboutObject() && m.Event != synchronizer.EventGet && i.appends(m.Kind):
				// below, all together
			case isSentinel(m):
				// so is this
			case i.Inventory != nil && len(requestsIn(m)) > 0:
				it.result = resultListed
			case about && m.Event.AboutObject() && m.Event != synchronizer.EventGet:
				it.result = f.fold(&objects[at], it, p.order(it, generations))
			case m.Event == synchronizer.EventServerConnected, m.Event == synchronizer.EventConnectedClients:
				it.result = resultNoted
			default:
				it.result = resultNone
			}
		}
		if err := late(ctx, tx, &p, items, generations); err != nil {
			return err
		}
		if asked, err = i.reportAll(ctx, tx, &f, items, p.reports); err != nil {
			return err
		}
		if err := tx.SeeClients(ctx, p.connected); err != nil {
			return err
		}
		if err := tx.SeeKinds(ctx, kindsOf(items, p.sentinels)); err != nil {
			return err
		}
		var dirty []synchronizer.Row
		for k := range objects {
			if o := &objects[k]; o.dirt {
				o.row.Touched = o.kept
				dirty = append(dirty, *o.row)
			}
		}
		return tx.Write(ctx, dirty)
	})
	if err != nil {
		return questions{}, err
	}
	f.commit()
	q := questions{objects: asked}
	for k := range objects {
		switch o := &objects[k]; {
		case o.ask != nil:
			q.objects = append(q.objects, *o.ask)
		case o.exact:
			q.exact = append(q.exact, p.keys[k])
		}
	}
	return q, nil
}

func kindOf(key *synchronizer.ObjectKey) synchronizer.ClusterKind {
	return synchronizer.ClusterKind{ClusterID: key.ClusterID, Kind: key.Kind}
}

// floors reads those of the kinds of which a row is absent.
func (i *Ingester) floors(ctx context.Context, tx synchronizer.Tx, keys []synchronizer.ObjectKey, rows []*synchronizer.Row) (map[synchronizer.ClusterKind]synchronizer.Order, error) {
	known := map[synchronizer.ClusterKind]bool{}
	var kinds []synchronizer.ClusterKind
	for k := range keys {
		if kind := kindOf(&keys[k]); rows[k] == nil && !known[kind] {
			known[kind] = true
			kinds = append(kinds, kind)
		}
	}
	return floorsOf(ctx, tx, kinds)
}

func floorsOf(ctx context.Context, tx synchronizer.Tx, kinds []synchronizer.ClusterKind) (map[synchronizer.ClusterKind]synchronizer.Order, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	found, err := tx.Floors(ctx, kinds)
	if err != nil {
		return nil, err
	}
	floors := make(map[synchronizer.ClusterKind]synchronizer.Order, len(kinds))
	for k, kind := range kinds {
		floors[kind] = found[k]
	}
	return floors, nil
}

// late finds out which events and answers to sentinels were said before their cluster
// was deleted; nothing else orders them.
func late(ctx context.Context, tx synchronizer.Tx, p *plan, items []item, generations []int64) error {
	about := append(p.reports[:len(p.reports):len(p.reports)], p.sentinels...)
	if len(about) == 0 {
		return nil
	}
	for _, k := range about {
		items[k].result = resultNoted // whatever an earlier run has found
	}
	floors, err := floorsOf(ctx, tx, kindsOf(items, about))
	if err != nil {
		return err
	}
	for _, k := range about {
		if it := &items[k]; p.order(it, generations).Compare(floors[it.kind()]) <= 0 {
			it.result = resultLate
		}
	}
	return nil
}

// kindsOf gives those of some of the items, each once, but not of late ones.
func kindsOf(items []item, of []int) (kinds []synchronizer.ClusterKind) {
	known := map[synchronizer.ClusterKind]bool{}
	for _, k := range of {
		if kind := items[k].kind(); items[k].result != resultLate && !known[kind] {
			known[kind] = true
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// reportAll appends the events among the items and returns what is to be asked.
func (i *Ingester) reportAll(ctx context.Context, tx synchronizer.Tx, f *folder, items []item, reports []int) ([]synchronizer.Message, error) {
	if len(reports) == 0 {
		return nil, nil
	}
	var rows []synchronizer.EventRow
	var of []int
	var asks []synchronizer.Message
	for _, k := range reports {
		if items[k].result == resultLate {
			continue
		}
		var o object
		row, what := f.report(&o, &items[k])
		items[k].result = what
		if row != nil {
			rows, of = append(rows, *row), append(of, k)
		}
		if o.ask != nil {
			asks = append(asks, *o.ask)
		}
	}
	if len(rows) == 0 {
		return asks, nil
	}
	added, err := tx.AppendEvents(ctx, rows)
	if err != nil {
		return nil, err
	}
	for n, k := range of {
		if !added[n] {
			items[k].result = resultDuplicate
		}
	}
	return asks, nil
}

// mark stores, in place of what the database does not take, that the object
// exists and is not carried: with its checksum, so that it is not asked for again
// and again. The dead letter holds the rest. A mark may be refused as well.
func (i *Ingester) mark(ctx context.Context, it *item) error {
	if e := it.msg.Event; e != synchronizer.EventPut && e != synchronizer.EventPatch || i.appends(it.msg.Kind) {
		return nil
	}
	marked := *it
	marked.notCarried, marked.refusal = string(synchronizer.DropDeadLetter), nil
	if _, err := i.commit(ctx, []item{marked}); err != nil {
		return err
	}
	return nil
}
