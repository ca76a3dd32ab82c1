// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/internal/rawjson"
)

// sentinelName is the name of an object that cannot exist: Kubernetes allows "%"
// in no name. A client says that it is gone, and since the list names nothing
// else, it offers everything that it has.
const sentinelName = "synchronizer%sentinel"

// isSentinel tells whether m says that the sentinel is gone, which is no news of
// an object: the client has the kind, that is all.
func isSentinel(m *synchronizer.Message) bool {
	return m.Event == synchronizer.EventDelete && m.Name == sentinelName
}

// place is an object within its kind.
type place struct{ namespace, name string }

// listing is one record to be made: all that is known of one kind. A list that
// left something out would make the client offer it again.
type listing struct {
	synchronizer.ClusterKind
	msgID string
	depth int
	// exact are objects that are listed with resourceVersion 0, whether they are
	// known or not, so that the client sends them whole.
	exact map[place]struct{}
	// about is how many objects there may be, so that a large record is allocated
	// once; 0 if that is not known.
	about int64
}

const (
	// mostListed bounds one record; the queue and the links carry no larger ones.
	mostListed = 60 << 20
	// bytesListed is what one object takes there, near enough.
	bytesListed = 192
	// keptListed bounds the memory that is kept from one record to the next.
	keptListed = 1 << 20
)

// chain gives MsgID and depth of the answer to a request. One whose answers
// would come too deep, or that has no MsgID, begins a new chain.
func chain(m *synchronizer.Message) (msgID string, depth int) {
	if m.MsgID == "" || m.Depth > maxAskDepth {
		return uuid.NewString(), 1
	}
	return m.MsgID, m.Depth
}

// list publishes one listing. Only what is read and confirmed is an answer: while
// the database or the queue is away, it waits.
func (i *Ingester) list(ctx context.Context, l *listing, buf *[]byte) error {
	record, err := i.listRecord(l)
	if err != nil {
		return err
	}
	before, ok := bytes.CutSuffix(record.Payload, []byte(listEnd))
	if !ok {
		return fmt.Errorf("%w: payload of a reconciliation ends with another text than %q", synchronizer.ErrInvalid, listEnd)
	}
	count := 0
	err = i.persist(ctx, "store", "reading what is known", func(ctx context.Context) (err error) {
		count, err = i.appendList(ctx, l, buf, before)
		if errors.Is(err, synchronizer.ErrTooLarge) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	tooLarge := len(*buf) > mostListed
	if !tooLarge {
		record.Payload = *buf
		err = i.persist(ctx, "queue", "publishing a reconciliation", func(ctx context.Context) error {
			err := i.Queue.Publish(ctx, synchronizer.In, []synchronizer.Record{record})
			if errors.Is(err, synchronizer.ErrTooLarge) {
				tooLarge = true
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if tooLarge {
		i.Drop(synchronizer.DropTooLarge, fmt.Sprintf("%s %s %s: a list of %d objects or more", synchronizer.EventReconciliation, l.ClusterID, l.Kind, count))
	} else {
		i.metrics.listed.Add(float64(count))
	}
	if cap(*buf) > keptListed {
		*buf = nil
	}
	return nil
}

// listRecord is the record of a listing of the objects given.
func (i *Ingester) listRecord(l *listing, known ...synchronizer.KnownObject) (synchronizer.Record, error) {
	record, err := i.Encoder.Encode(&synchronizer.Message{
		Event: synchronizer.EventReconciliation, ClusterID: l.ClusterID, MsgID: l.msgID, Depth: l.depth, ServerInitiated: true,
		Known: map[synchronizer.Kind][]synchronizer.KnownObject{l.Kind: append([]synchronizer.KnownObject{}, known...)},
	}, queue.Extra{})
	if err != nil {
		return record, fmt.Errorf("encoding reconciliation: %w", err) // of our own making: cannot happen
	}
	return record, nil
}

// listEnd is how the payload of a reconciliation of one kind without objects ends.
const listEnd = "]}}"

// appendList writes the payload into buf: what stands before the list, and the
// list, in the order of the store. A kind of which nothing is known is listed with
// a sentinel, because clients in the field refuse empty lists.
func (i *Ingester) appendList(ctx context.Context, l *listing, buf *[]byte, before []byte) (count int, err error) {
	b := slices.Grow((*buf)[:0], int(min(l.about*bytesListed, mostListed))+len(before)+bytesListed)
	b = append(b, before...)
	defer func() { *buf = b }()
	first := len(b)
	add := func(namespace, name, version, checksum string) {
		if count++; len(b) > first {
			b = append(b, ',')
		}
		b = appendKnown(b, namespace, name, version, checksum)
	}
	met := map[place]struct{}{}
	err = i.Inventory.Known(ctx, l.ClusterKind, func(row *synchronizer.Row) error {
		version := row.ResourceVersion
		at := place{row.Key.Namespace, row.Key.Name}
		if _, ok := l.exact[at]; ok {
			version = ""
			met[at] = struct{}{}
		}
		if add(row.Key.Namespace, row.Key.Name, version, row.Checksum); len(b) > mostListed {
			return synchronizer.ErrTooLarge
		}
		return nil
	})
	if err != nil {
		return count, err
	}
	for at := range l.exact {
		if _, ok := met[at]; !ok {
			add(at.namespace, at.name, "", "")
		}
	}
	if count == 0 {
		add("", sentinelName, "", "")
	}
	b = append(b, listEnd...)
	return count, nil
}

// appendKnown writes one object as the field does.
func appendKnown(b []byte, namespace, name, version, checksum string) []byte {
	number, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		number = 0 // a text that does not fit
	}
	b = append(b, `{"checksum":`...)
	b = rawjson.AppendQuote(b, []byte(checksum))
	b = append(b, `,"resourceVersion":`...)
	b = strconv.AppendInt(b, number, 10)
	b = append(b, `,"name":`...)
	b = rawjson.AppendQuote(b, []byte(name))
	b = append(b, `,"namespace":`...)
	b = rawjson.AppendQuote(b, []byte(namespace))
	return append(b, '}')
}
