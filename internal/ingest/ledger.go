// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"sync"
)

// mostOpen bounds the records that are final and not acknowledged, because one
// before them is not final: they cost no memory here, but the broker has to
// remember them, and they come again after a crash.
const mostOpen = 1 << 15

// delivery is one batch of the broker. It is acknowledged when all of its items
// are final, and all before it: an acknowledgement stands for those as well.
type delivery struct {
	ack     func(context.Context) error
	records int
	open    int // items that are not final; guarded by the ledger's mu
}

// ledger knows which records are on their way. Memory is bounded by it: what is
// held are the items that are not final.
type ledger struct {
	mostRecords, mostBytes int
	room, final            chan struct{} // capacity 1: something changed for wait, for next

	mu         sync.Mutex
	records    int // held
	bytes      int
	deliveries []*delivery // in the order of the broker, not acknowledged
	open       int         // their records
}

func newLedger(mostRecords, mostBytes int) *ledger {
	return &ledger{mostRecords: mostRecords, mostBytes: mostBytes, room: make(chan struct{}, 1), final: make(chan struct{}, 1)}
}

// wait returns when there is room for one more batch: what is held is what the
// lanes can work on at once.
func (l *ledger) wait(ctx context.Context) error {
	for {
		l.mu.Lock()
		room := l.records <= l.mostRecords && l.bytes <= l.mostBytes && l.open <= mostOpen
		l.mu.Unlock()
		if room {
			return ctx.Err()
		}
		select {
		case <-l.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// enter notes a batch of the broker.
func (l *ledger) enter(items []item, ack func(context.Context) error) {
	d := &delivery{ack: ack, records: len(items), open: len(items)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deliveries = append(l.deliveries, d)
	l.open += d.records
	for k := range items {
		items[k].delivery, items[k].bytes = d, items[k].record.Size()
		l.records++
		l.bytes += items[k].bytes
	}
}

// leave notes that items are final.
func (l *ledger) leave(items []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range items {
		l.records--
		l.bytes -= items[k].bytes
		items[k].delivery.open--
	}
	if len(l.deliveries) > 0 && l.deliveries[0].open == 0 {
		poke(l.final)
	}
	poke(l.room)
}

// next waits until the oldest deliveries are final and gives the acknowledgement
// of the newest of them.
func (l *ledger) next(ctx context.Context) (func(context.Context) error, error) {
	for {
		if ack := l.take(); ack != nil {
			return ack, nil
		}
		select {
		case <-l.final:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *ledger) take() func(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.deliveries) && l.deliveries[n].open == 0 {
		l.open -= l.deliveries[n].records
		n++
	}
	if n == 0 {
		return nil
	}
	ack := l.deliveries[n-1].ack
	clear(l.deliveries[:n])
	l.deliveries = l.deliveries[n:]
	poke(l.room)
	return ack
}

// poke leaves a value in a channel of capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
