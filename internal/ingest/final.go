// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"errors"
	"fmt"

	"synchronizer"
	"synchronizer/internal/queue"
	"synchronizer/internal/telemetry/traceparent"
)

// answer publishes the questions of a batch.
func (i *Ingester) answer(ctx context.Context, asks []synchronizer.Message) error {
	if len(asks) == 0 {
		return nil
	}
	records := make([]synchronizer.Record, 0, len(asks))
	for k := range asks {
		r, err := i.Encoder.Encode(&asks[k], queue.Extra{})
		if err != nil {
			// A name that no other record can carry: nobody could answer.
			i.Drop(synchronizer.DropMalformed, fmt.Sprintf("%s %s: %v", asks[k].Event, asks[k].Key(), err))
			continue
		}
		records = append(records, r)
	}
	if len(records) == 0 {
		return nil
	}
	return i.persist(ctx, "queue", "publishing questions", func(ctx context.Context) error {
		err := i.Queue.Publish(ctx, synchronizer.In, records)
		if errors.Is(err, synchronizer.ErrTooLarge) { // the others are confirmed
			i.Drop(synchronizer.DropTooLarge, "a question: "+err.Error())
			return nil
		}
		return err
	})
}

// setAside moves records that can never be stored to the dead-letter topic and
// names what was not carried.
func (i *Ingester) setAside(ctx context.Context, items []item) error {
	var dead []synchronizer.Record
	for k := range items {
		it := &items[k]
		drop := func(reason synchronizer.DropReason, what string) {
			i.Drop(reason, traceparent.Named(what, it.msg.TraceParent))
		}
		for _, err := range it.left {
			drop(synchronizer.DropMalformed, it.name()+": "+err.Error())
		}
		switch it.result {
		case resultFault:
			r := *it.record
			r.Properties = append(r.Properties[:len(r.Properties):len(r.Properties)],
				synchronizer.Property{Name: "x-dead-letter-reason", Value: it.fault.Error()})
			dead = append(dead, r)
			drop(it.dropReason(), it.name()+": "+it.fault.Error())
		case resultStale:
			drop(synchronizer.DropStale, it.name())
		case resultLate:
			drop(synchronizer.DropLate, it.name())
		case resultPatch:
			drop(synchronizer.DropPatchBase, it.name())
		case resultNone:
			reason := synchronizer.DropUnsupported
			if it.msg.Event == synchronizer.EventUnknown {
				reason = synchronizer.DropUnknownEvent
			}
			drop(reason, it.name())
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return i.persist(ctx, "queue", "publishing dead letters", func(ctx context.Context) error {
		err := i.Queue.Publish(ctx, synchronizer.DeadLetter, dead)
		if errors.Is(err, synchronizer.ErrTooLarge) {
			i.Logger.Error("a dead letter is too large for the queue and is lost; its name was logged", "error", err)
			return nil
		}
		return err
	})
}
