// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"synchronizer"
)

// maxAnswered bounds what is remembered of answered requests, about 100 bytes each.
const maxAnswered = 4096

func newAnswered() *lru.Cache[string, struct{}] {
	c, err := lru.New[string, struct{}](maxAnswered)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return c
}

// requestsIn gives the requests for a reconciliation that a record holds. A list
// of objects on Out is no request: only clients compare.
func requestsIn(m *synchronizer.Message) []synchronizer.Message {
	var all []synchronizer.Message
	switch m.Event {
	case synchronizer.EventReconciliationBatch:
		all = slices.Clone(m.Requests)
	case synchronizer.EventReconciliation:
		all = []synchronizer.Message{*m}
	}
	return slices.DeleteFunc(all, func(r synchronizer.Message) bool { return !r.ServerInitiated || r.Known != nil })
}

// reconcile answers the requests of a batch, after its transaction, so that what
// the client said before the request is in the lists. Of several requests for one
// cluster the last is answered.
func (i *Ingester) reconcile(ctx context.Context, items []item) error {
	if i.Inventory == nil {
		return nil
	}
	var order []synchronizer.ClusterID
	last := map[synchronizer.ClusterID]*synchronizer.Message{}
	for k := range items {
		m := &items[k].msg
		if items[k].result == resultNoted && m.Event == synchronizer.EventServerConnected {
			i.agenda.connected(m.ClusterID, i.Now().Add(i.FirstSyncAfter))
		}
		if items[k].result != resultListed {
			continue
		}
		requests := requestsIn(m)
		for n := range requests {
			id := requests[n].ClusterID
			if last[id] == nil {
				order = append(order, id)
			}
			last[id] = &requests[n]
		}
	}
	for _, id := range order {
		if err := i.listCluster(ctx, last[id]); err != nil {
			return err
		}
	}
	return nil
}

// listCluster answers one request: a record for each kind of which something was
// ever heard. A request that comes again, because its batch was not acknowledged
// in time, is not answered again.
func (i *Ingester) listCluster(ctx context.Context, m *synchronizer.Message) error {
	answered := m.ClusterID.String() + " " + m.MsgID
	if m.MsgID != "" && i.listed.Contains(answered) {
		return nil
	}
	status, err := i.statusOf(ctx, m.ClusterID)
	if err != nil || status == nil {
		return err
	}
	// In another order each time: where a client's server has no room for all lists,
	// it is not always the same kind that is left out.
	rand.Shuffle(len(status.Kinds), func(a, b int) { status.Kinds[a], status.Kinds[b] = status.Kinds[b], status.Kinds[a] })
	var buf []byte
	msgID, depth := chain(m)
	for k := range status.Kinds {
		if i.appends(status.Kinds[k].Kind) {
			continue // what has happened is not compared
		}
		l := listing{
			ClusterKind: synchronizer.ClusterKind{ClusterID: m.ClusterID, Kind: status.Kinds[k].Kind},
			msgID:       msgID, depth: depth, about: status.Kinds[k].Objects,
		}
		if err := i.list(ctx, &l, &buf); err != nil {
			return err
		}
	}
	if m.MsgID != "" {
		i.listed.Add(answered, struct{}{})
	}
	return nil
}

// statusOf reads what is known of a cluster; nil if nothing is.
func (i *Ingester) statusOf(ctx context.Context, id synchronizer.ClusterID) (*synchronizer.ClusterStatus, error) {
	if id.Validate() != nil {
		return nil, nil // would be everybody's
	}
	found, err := i.statuses(ctx, id)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func (i *Ingester) statuses(ctx context.Context, id synchronizer.ClusterID) (found []synchronizer.ClusterStatus, err error) {
	err = i.persist(ctx, "store", "reading clusters", func(ctx context.Context) (err error) {
		found, err = i.Inventory.Clusters(ctx, id)
		return err
	})
	return found, err
}

// escalate has objects listed that only a reconciliation can get.
func (i *Ingester) escalate(keys []synchronizer.ObjectKey) {
	for k := range keys {
		if i.Inventory == nil || !i.agenda.escalate(keys[k], i.Now()) {
			i.Logger.Warn("an object stays as it was until the next reconciliation: its patches do not fit", "object", keys[k].String())
		}
	}
}

// keepAgenda lists what is due, until ctx ends.
func (i *Ingester) keepAgenda(ctx context.Context) error {
	if err := i.resumeFirstSyncs(ctx); err != nil {
		return err
	}
	var buf []byte
	for {
		due, err := i.agenda.next(ctx, i.Now)
		if err != nil {
			return err
		}
		if due.kind == (synchronizer.Kind{}) {
			err = i.firstSync(ctx, due.ClusterID)
		} else {
			msgID, depth := chain(&synchronizer.Message{})
			err = i.list(ctx, &listing{
				ClusterKind: synchronizer.ClusterKind{ClusterID: due.ClusterID, Kind: due.kind},
				msgID:       msgID, depth: depth, exact: due.exact,
			}, &buf)
		}
		if err != nil && !errors.Is(err, synchronizer.ErrInvalid) {
			return err
		}
		if err != nil {
			i.Logger.Error("listing what is known", "account", due.Account, "cluster", due.Cluster, "kind", due.kind.String(), "error", err)
		}
	}
}
