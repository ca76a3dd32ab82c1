// SPDX-License-Identifier: Apache-2.0

package walk

import (
	"cmp"
	"context"
	"slices"

	"synchronizer"
)

const (
	// KindsPerPage bounds how many kinds one page looks into.
	KindsPerPage = 2000
	// postingLimit is up to how many hits of labels and words in a kind are read and
	// sorted. Those with more are filtered on the walk, where they are found often.
	postingLimit = 1000
	// probeRows is how many rows that do not match are looked at before an index of
	// labels or words is asked: of a label or word that many have, a page is full
	// until then.
	probeRows = 300
	// spacesPerQuery is how many namespaces are asked for a name at a time.
	spacesPerQuery = 500
	// namesPerQuery is how many names are looked up at a time.
	namesPerQuery = 50
)

// walk collects one page.
type walk struct {
	*Query
	index  Index
	budget int // rows that may still be looked at without being returned
	terms  []Term
	probe  int    // rows that do not match until paused is set; 0: it never is
	paused *Place // where the walk stands

	rows  []synchronizer.Row
	ids   []int64 // of rows
	sizes []int64 // bytes of their bodies
	end   *Position
}

// Page reads one page. The kinds are those that the caller may see and asks for,
// in order, from the query's position on, KindsPerPage at most.
func Page(ctx context.Context, ix Index, q *Query, limits Limits, kinds []Kind) (synchronizer.ObjectPage, error) {
	w := &walk{Query: q, index: ix, budget: limits.Rows, terms: q.filter.terms()}
	having, err := w.having(ctx, kinds)
	if err != nil {
		return synchronizer.ObjectPage{}, err
	}
	if err := w.kinds(ctx, having); err != nil {
		return synchronizer.ObjectPage{}, err
	}
	if w.end == nil && len(kinds) == KindsPerPage {
		w.endBehind(kinds[len(kinds)-1])
	}
	if q.full {
		if err := w.readBodies(ctx, limits.Bytes); err != nil {
			return synchronizer.ObjectPage{}, err
		}
	}
	page := synchronizer.ObjectPage{Rows: w.rows}
	if w.end != nil {
		page.Continue = w.end.token()
	}
	return page, nil
}

// having leaves out kinds in which no row has the labels and words.
func (w *walk) having(ctx context.Context, kinds []Kind) ([]Kind, error) {
	if len(w.terms) == 0 || len(kinds) < 2 {
		return kinds, nil
	}
	have, err := w.index.Having(ctx, kinds, w.terms)
	if err != nil {
		return nil, err
	}
	var left []Kind
	for _, kind := range kinds {
		if have[kind.ID] {
			left = append(left, kind)
		}
	}
	return left, nil
}

// kinds walks kind after kind, until the page is full or the budget is used up.
func (w *walk) kinds(ctx context.Context, kinds []Kind) error {
	for _, kind := range kinds {
		var after *Place
		if from := w.From; from != nil && !from.KindDone && kind.isOf(from) {
			after = &Place{from.Namespace, from.Name}
		}
		if err := w.kind(ctx, kind, after); err != nil {
			return err
		}
		if w.end != nil {
			return nil
		}
		if w.budget--; w.budget <= 0 {
			w.endBehind(kind)
			return nil
		}
	}
	return nil
}

func (k *Kind) isOf(p *Position) bool {
	return k.Account == p.Account && k.Cluster == p.Cluster &&
		k.Kind == synchronizer.Kind{Group: p.Group, Version: p.Version, Resource: p.Resource}
}

func (w *walk) endBehind(kind Kind) {
	w.end = &Position{
		Account: kind.Account, Cluster: kind.Cluster,
		Group: kind.Kind.Group, Version: kind.Kind.Version, Resource: kind.Kind.Resource, KindDone: true,
	}
}

func (w *walk) endAt(kind Kind, p Place) {
	w.endBehind(kind)
	w.end.KindDone, w.end.Namespace, w.end.Name = false, p.Namespace, p.Name
}

// cut keeps the first n rows of the page.
func (w *walk) cut(n int) {
	w.rows, w.ids, w.sizes = w.rows[:n], w.ids[:n], w.sizes[:n]
	key := w.rows[n-1].Key
	w.endAt(Kind{ClusterKind: synchronizer.ClusterKind{ClusterID: key.ClusterID, Kind: key.Kind}}, Place{key.Namespace, key.Name})
}

// kind walks one kind: first along the keys; and if labels or words are asked for
// that turn out to be seldom, on along their index.
func (w *walk) kind(ctx context.Context, kind Kind, after *Place) error {
	if len(w.terms) > 0 {
		w.probe = probeRows
		if err := w.along(ctx, kind, after); err != nil || w.paused == nil {
			w.probe = 0
			return err
		}
		w.probe, after, w.paused = 0, w.paused, nil
		if few, err := w.hits(ctx, kind, after); err != nil || few {
			return err
		}
	}
	return w.along(ctx, kind, after)
}

// along walks a kind in the order of its keys.
func (w *walk) along(ctx context.Context, kind Kind, after *Place) error {
	switch {
	case len(w.namespaces) > 0:
		return w.inNamespaces(ctx, kind, after)
	case w.byName():
		return w.anywhere(ctx, kind, after)
	default:
		return w.scan(ctx, kind, Range{Behind: after})
	}
}

// over reports whether the walk of a kind is at its end, or pauses.
func (w *walk) over() bool { return w.end != nil || w.paused != nil }

func (w *walk) scan(ctx context.Context, kind Kind, r Range) error {
	limit := w.limit - len(w.rows) + 1 // one more tells that another page follows
	if w.probe > 0 {
		limit += min(w.budget, w.probe)
	} else {
		limit += w.budget
	}
	return w.index.Scan(ctx, kind, r, limit, func(found *Found) bool { return w.take(kind, found) })
}

// take looks at the next row in order and reports whether the walk goes on. A
// match beyond the limit tells that another page follows.
func (w *walk) take(kind Kind, f *Found) bool {
	switch {
	case !w.matches(f):
		place := Place{f.Row.Key.Namespace, f.Row.Key.Name}
		if w.budget--; w.budget <= 0 {
			w.endAt(kind, place)
		} else if w.probe > 0 {
			if w.probe--; w.probe == 0 {
				w.paused = &place
			}
		}
	case len(w.rows) == w.limit:
		w.cut(w.limit)
	default:
		w.rows = append(w.rows, f.Row)
		w.ids = append(w.ids, f.ID)
		w.sizes = append(w.sizes, f.Size)
	}
	return !w.over()
}

// inNamespaces walks the namespaces that were asked for.
func (w *walk) inNamespaces(ctx context.Context, kind Kind, after *Place) error {
	for _, ns := range w.namespaces {
		if after != nil && ns < after.Namespace {
			continue
		}
		if err := w.namespace(ctx, kind, ns, after); err != nil || w.over() {
			return err
		}
	}
	return nil
}

// anywhere looks for names in every namespace.
func (w *walk) anywhere(ctx context.Context, kind Kind, after *Place) error {
	next := ""
	if after != nil {
		next = after.Namespace
	}
	for {
		spaces, err := w.index.Spaces(ctx, kind, next, w.nameRange(), spacesPerQuery)
		if err != nil {
			return err
		}
		for _, s := range spaces {
			if s.Has {
				if err := w.namespace(ctx, kind, s.Namespace, after); err != nil || w.over() {
					return err
				}
			}
			if w.budget--; w.budget <= 0 {
				return w.endBehindNamespace(ctx, kind, s.Namespace)
			}
		}
		if len(spaces) < spacesPerQuery {
			return nil
		}
		next = spaces[len(spaces)-1].Namespace + "\x00" // the least text behind it
	}
}

// endBehindNamespace ends the page behind the last object of a namespace.
func (w *walk) endBehindNamespace(ctx context.Context, kind Kind, ns string) error {
	name, err := w.index.LastName(ctx, kind, ns)
	w.endAt(kind, Place{ns, name})
	return err
}

// namespace walks one namespace, from the place on if it is in it.
func (w *walk) namespace(ctx context.Context, kind Kind, ns string, after *Place) error {
	from := w.prefix
	if after != nil && after.Namespace == ns {
		from = max(from, after.Name+"\x00") // the least text behind it
	}
	if len(w.names) > 0 {
		start, _ := slices.BinarySearch(w.names, from)
		return w.named(ctx, kind, ns, w.names[start:])
	}
	return w.scan(ctx, kind, Range{InNamespace: true, Namespace: ns, Names: Names{From: from, End: w.prefixEnd}})
}

// named reads the objects of these names, in parts that keep the texts few.
func (w *walk) named(ctx context.Context, kind Kind, ns string, names []string) error {
	for len(names) > 0 && !w.over() {
		n := 1
		if len(names) >= namesPerQuery {
			n = namesPerQuery
		}
		if err := w.scan(ctx, kind, Range{InNamespace: true, Namespace: ns, Names: Names{In: names[:n]}}); err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}

// hits reads all rows that have the labels and words and puts them in order, unless
// there are too many for that.
func (w *walk) hits(ctx context.Context, kind Kind, after *Place) (few bool, err error) {
	var all []*Found
	few, err = w.index.Few(ctx, kind, w.terms, postingLimit, func(f *Found) {
		key := &f.Row.Key
		if after == nil || cmp.Or(cmp.Compare(key.Namespace, after.Namespace), cmp.Compare(key.Name, after.Name)) > 0 {
			all = append(all, f)
		}
	})
	if err != nil || !few {
		return false, err
	}
	slices.SortFunc(all, func(a, b *Found) int {
		return cmp.Or(cmp.Compare(a.Row.Key.Namespace, b.Row.Key.Namespace), cmp.Compare(a.Row.Key.Name, b.Row.Key.Name))
	})
	for i := range all {
		if i > 0 && all[i].ID == all[i-1].ID {
			continue // found under two values, as only a collision can be
		}
		if !w.take(kind, all[i]) {
			break
		}
	}
	return true, nil
}

// readBodies fills the bodies, and ends the page early if they are too large.
func (w *walk) readBodies(ctx context.Context, pageBytes int64) error {
	var total int64
	for i, size := range w.sizes {
		if total += size; total > pageBytes && i > 0 {
			w.cut(i)
			break
		}
	}
	places := make(map[int64]int, len(w.ids))
	for i, id := range w.ids {
		places[id] = i
	}
	return w.index.Bodies(ctx, w.ids, func(id int64, body []byte) { w.rows[places[id]].Body = body })
}
