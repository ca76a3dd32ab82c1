// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"time"

	"github.com/google/uuid"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/patch"
	"synchronizer/internal/rawjson"
)

// maxAskDepth is the greatest depth of a record whose GetObject is still
// answered: its frame is one deeper, the answering frame two, and no frame
// deeper than MaxDepth is handled.
const maxAskDepth = synchronizer.MaxDepth - 2

// object is one key of a batch: the row as it is stored, changed by one item
// after the other.
type object struct {
	row   *synchronizer.Row  // nil: the store knows nothing
	floor synchronizer.Order // what is said of an absent object at or below it is late
	ask   *synchronizer.Message
	exact bool // only a reconciliation can get it, or get it exactly: see escalate
	kept  bool // the row has been changed, but only touched
	dirt  bool // the row has been changed
}

// escalate leaves the row as it is and has the object listed with
// resourceVersion 0, which a client answers with the whole object, exactly.
func (o *object) escalate() { o.ask, o.exact = nil, true }

// folder applies items to objects. It does no I/O; now is the time of the
// transaction. Offers that it makes are remembered by others only once the
// transaction is committed: a transaction may run several times.
type folder struct {
	now    time.Time
	offers *offers
	made   map[uint64]offer
}

func (f *folder) offer(m *synchronizer.Message, of offer) {
	if f.made == nil {
		f.made = map[uint64]offer{}
	}
	f.made[f.offers.key(m)] = of
}

func (f *folder) offered(m *synchronizer.Message) (offer, bool) {
	key := f.offers.key(m)
	if of, ok := f.made[key]; ok {
		return of, true
	}
	return f.offers.cache.Get(key)
}

// commit makes the offers known.
func (f *folder) commit() {
	for key, of := range f.made {
		f.offers.cache.Add(key, of)
	}
}

// fold applies one item to its object and says what became of it.
func (f *folder) fold(o *object, it *item, order synchronizer.Order) result {
	m := &it.msg
	if o.row == nil && order.Compare(o.floor) <= 0 {
		return resultLate
	}
	if o.row != nil {
		switch c := order.Compare(o.row.Order); {
		case c == 0:
			return resultDuplicate
		case c < 0:
			return resultStale
		}
	}
	if it.notCarried != "" {
		f.mark(o, it, order)
		return resultFault
	}
	switch m.Event {
	case synchronizer.EventVerify:
		return f.verify(o, m, order)
	case synchronizer.EventPut:
		f.store(o, m, order, m.Body, m.Checksum, it.uid, it.resourceVersion)
		o.row.Terms = it.terms
		return resultStored
	case synchronizer.EventPatch:
		return f.patch(o, m, order)
	case synchronizer.EventDelete:
		o.ask, o.exact = nil, false
		o.row = &synchronizer.Row{Key: m.Key(), Order: order, UpdatedAt: f.now, DeletedAt: f.now}
		o.dirt, o.kept = true, false
		return resultDeleted
	}
	return resultNone
}

// verify handles "the object exists with this checksum".
func (f *folder) verify(o *object, m *synchronizer.Message, order synchronizer.Order) result {
	if r := o.row; r != nil && !r.Deleted() && m.Checksum != "" && (m.Checksum == r.Checksum || m.Checksum == r.Offered) {
		// The newer statement takes over the row's place in the order, so that a
		// state from between cannot come back.
		o.ask, o.exact = nil, false
		r.Order = order
		o.kept = o.kept || !o.dirt
		o.dirt = true
		return resultConfirmed
	}
	f.offer(m, offer{checksum: m.Checksum})
	o.ask = f.question(m, nil)
	return resultAsked
}

// patch handles a merge patch. The row is left as it is unless the result has
// the checksum that the client says.
func (f *folder) patch(o *object, m *synchronizer.Message, order synchronizer.Order) result {
	if roundsNumbers(m.Body) {
		// The checksum would agree with the rounded number.
		o.escalate()
		return resultAsked
	}
	offered, _ := f.offered(m)
	base := []byte(nil)
	switch {
	case offered.emptyBase:
		base = []byte("{}")
	case o.row != nil && !o.row.Deleted():
		base = o.row.Body
	}
	if base != nil {
		if body, err := patch.ApplyV1(base, m.Body); err == nil {
			if sum, err := checksum.ObjectV1(body); err == nil && sum == m.Checksum {
				if meta, err := rawjson.Metadata(body); err == nil {
					f.store(o, m, order, body, sum, meta.UID, meta.ResourceVersion)
					// Of a number that has changed by less than a client can see the patch says
					// nothing, and the checksum agrees.
					o.exact = roundsNumbers(body)
					return resultStored
				}
			}
		}
	}
	if offered.emptyBase {
		o.escalate() // the second failure: nothing that this peer patches will fit
		return resultPatch
	}
	// Asked with an empty base, the client sends the whole object.
	o.ask = f.question(m, []byte("{}"))
	f.offer(o.ask, offer{checksum: m.Checksum, emptyBase: true})
	return resultAsked
}

// store makes body the object's state.
func (f *folder) store(o *object, m *synchronizer.Message, order synchronizer.Order, body []byte, sum, uid, rv string) {
	row := &synchronizer.Row{
		Key: m.Key(), UID: uid, ResourceVersion: rv, Checksum: sum,
		Order: order, UpdatedAt: f.now, Body: body,
	}
	if offered, ok := f.offered(m); ok && offered.checksum != sum {
		row.Offered = offered.checksum
	}
	o.row, o.ask, o.exact, o.dirt, o.kept = row, nil, false, true, false
}

// mark makes the row say that the object exists in a state that is not carried.
func (f *folder) mark(o *object, it *item, order synchronizer.Order) {
	row := &synchronizer.Row{
		Key: it.msg.Key(), UID: it.uid, ResourceVersion: it.resourceVersion, Checksum: it.msg.Checksum,
		Order: order, UpdatedAt: f.now, State: "not carried: " + it.notCarried,
	}
	if it.msg.Event == synchronizer.EventPatch && o.row != nil {
		row.UID = o.row.UID
	}
	o.row, o.ask, o.exact, o.dirt, o.kept = row, nil, false, true, false
}

// question asks the client for the object of m. Depth and MsgID are copied, so
// that the answer can be told; a chain that has become too deep to be answered
// is begun anew.
func (f *folder) question(m *synchronizer.Message, base []byte) *synchronizer.Message {
	q := &synchronizer.Message{
		Event: synchronizer.EventGet, Depth: m.Depth, MsgID: m.MsgID,
		Kind: m.Kind, Namespace: m.Namespace, Name: m.Name,
		ResourceVersion: m.ResourceVersion, Body: base, ClusterID: m.ClusterID, TraceParent: m.TraceParent,
	}
	if m.Depth > maxAskDepth || m.MsgID == "" {
		q.Depth, q.MsgID = 1, uuid.NewString()
	}
	return q
}
