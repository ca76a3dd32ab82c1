// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"synchronizer"
)

// writer changes the objects of a world, in a random order that its seed decides.
type writer struct {
	w      *world
	random *rand.Rand
	kinds  []synchronizer.Kind
	slots  int // names per kind
	bulk   int // bytes that an object has more than it needs
	// exists says of every slot whether the writer has an object there.
	exists map[synchronizer.Kind][]bool

	done atomic.Int64 // operations
}

// newWriter finds the first existing of its slots taken.
func (w *world) newWriter(seed uint64, slots, existing int, kinds ...synchronizer.Kind) *writer {
	wr := &writer{w: w, random: rand.New(rand.NewPCG(seed, 0)), kinds: kinds, slots: slots, exists: map[synchronizer.Kind][]bool{}}
	for _, kind := range kinds {
		wr.exists[kind] = make([]bool, slots)
		for i := range existing {
			wr.exists[kind][i] = true
		}
	}
	return wr
}

// slotPrefix begins the names of a writer's objects.
const slotPrefix = "slot"

// step does one operation: half of them are changes, and an object that was
// deleted comes back under its name.
func (wr *writer) step(ctx context.Context) error {
	kind := wr.kinds[wr.random.IntN(len(wr.kinds))]
	slot := wr.random.IntN(wr.slots)
	remove := wr.random.IntN(2) == 0
	exists := wr.exists[kind]
	name := numbered(slotPrefix, slot)
	var err error
	switch {
	case !exists[slot]:
		err = wr.w.tryCreate(ctx, kind, name, strings.Repeat("x", wr.bulk))
		exists[slot] = true
	case remove:
		err = wr.w.tryDelete(ctx, kind, name)
		exists[slot] = false
	default:
		err = wr.w.tryChange(ctx, kind, name)
	}
	if ctx.Err() == nil && !ignorable(err) {
		return err
	}
	wr.done.Add(1)
	return nil
}

// start writes so many operations per second until stop, which waits for the
// one that is under way.
func (wr *writer) start(perSecond int) (stop func()) {
	_, stop = background(wr.w.t, "writer", func(ctx context.Context) error {
		pace := time.NewTicker(time.Second / time.Duration(perSecond))
		defer pace.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-pace.C:
			}
			if err := wr.step(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
	})
	return stop
}

// more waits until the writer has done n operations more.
func (wr *writer) more(n int64) {
	wr.w.t.Helper()
	until := wr.done.Load() + n
	eventually(wr.w.t, "the writer goes on", func() bool { return wr.done.Load() >= until })
}
