// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// send puts a batch on the queue without waiting; acked says whether it was
// acknowledged.
func (s *script) send(records ...synchronizer.Record) (acked func() bool) {
	done := make(chan struct{})
	s.batches <- synchronizer.Batch{Records: records, Ack: func(context.Context) error {
		close(done)
		return nil
	}}
	return func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

// poisoned is a rig whose database refuses objects called poison, and its store.
func poisoned(t *testing.T, change func(*Options)) (*rig, *brokenStore) {
	var store *brokenStore
	r := newRigAt(t, t.TempDir()+"/test.db", func(o *Options) {
		store = &brokenStore{Store: o.Store, poison: "poison"}
		o.Store = store
		if change != nil {
			change(o)
		}
	})
	return r, store
}

// A record that the database refuses is tried 20 times before it is a dead letter.
// Nothing waits for it but the acknowledgement.
func TestRefusedRecordIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := poisoned(t, nil)
		r.deliver(t, connected(t, "s1"))
		first := r.send(put(t, "s1", 1, "a", body("a", "u", 1)), put(t, "s1", 2, "poison", body("poison", "u", 1)), put(t, "s1", 3, "b", body("b", "u", 1)))
		var later []func() bool
		for n := range 100 {
			name := fmt.Sprint("c", n)
			later = append(later, r.send(put(t, "s1", uint64(4+n), name, body(name, "u", 1))))
		}
		synctest.Wait() // no time has passed
		for n := range 100 {
			require.NotNil(t, r.row(t, fmt.Sprint("c", n)))
		}
		require.NotNil(t, r.row(t, "b"))
		require.False(t, first())
		require.False(t, later[0]())
		pass(5 * time.Second)
		require.Empty(t, r.dead)
		require.NoError(t, r.ingester.Ready())
		pass(10 * time.Second)
		require.Len(t, r.dead, 1)
		require.True(t, later[99]())
		require.Contains(t, r.drops.named, "PutObject acc/c1 apps/v1/deployments default/poison: invalid: the database refuses this row")
	})
}

// The cause may go away: then the record is stored, unless something newer was.
func TestRefusedRecordIsStoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := poisoned(t, nil)
		r.deliver(t, connected(t, "s1"))
		acked := r.send(put(t, "s1", 1, "poison", body("poison", "u", 1)), put(t, "s1", 2, "poison-2", body("poison-2", "u", 1)))
		pass(time.Second)
		require.Nil(t, r.row(t, "poison"))
		store.refuse("poison-2")
		pass(time.Second)
		require.Equal(t, string(body("poison", "u", 1)), string(r.row(t, "poison").Body))
		require.False(t, acked())

		// What is said meanwhile is newer, and stays.
		store.refuse("")
		newer := r.send(put(t, "s1", 3, "poison-2", body("poison-2", "u", 2)))
		synctest.Wait()
		pass(time.Second)
		require.True(t, newer(), "which stands for both")
		require.Equal(t, string(body("poison-2", "u", 2)), string(r.row(t, "poison-2").Body))
		require.Equal(t, 1, r.drops.of(synchronizer.DropStale))
		require.Empty(t, r.dead)
	})
}

// A database that is away between the attempts is no attempt.
func TestDatabaseAwayIsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := poisoned(t, func(o *Options) { o.MaxAttempts = 3 })
		r.deliver(t, connected(t, "s1"))
		acked := r.send(put(t, "s1", 1, "poison", body("poison", "u", 1)))
		synctest.Wait()
		store.set(errors.New("away"))
		pass(10 * time.Minute)
		require.ErrorContains(t, r.ingester.Ready(), "away")
		store.refuse("")
		store.set(nil)
		pass(time.Minute)
		require.True(t, acked())
		require.NotNil(t, r.row(t, "poison"))
		require.Empty(t, r.dead)
		require.NoError(t, r.ingester.Ready())
	})
}

// What is not carried is known to exist, so that it is not asked for for ever;
// the next state of it is stored as any other.
func TestNotCarriedIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(s synchronizer.Store) synchronizer.Store { return &brokenStore{Store: s, poisonBody: "odd"} })
		odd := []byte(`{"metadata":{"name":"web","namespace":"default","uid":"u1","resourceVersion":"7"},"status":{"log":"odd"}}`)
		r.deliver(t, connected(t, "s1"), put(t, "s1", 1, "web", odd))
		row := r.row(t, "web")
		require.Equal(t, "not carried: dead_letter", row.State)
		require.Equal(t, sum(t, odd), row.Checksum)
		require.Equal(t, []string{"u1", "7"}, []string{row.UID, row.ResourceVersion})
		require.Empty(t, row.Body)
		require.Len(t, r.dead, 1)
		r.deliver(t, verify(t, "s1", 2, "web", sum(t, odd)))
		require.Empty(t, r.questions(t))

		// A patch has no base, so the whole object is asked for.
		r.deliver(t, change(t, "s1", 3, "web", `{"status":{"log":null}}`, "x"))
		asked := r.questions(t)
		require.Len(t, asked, 1)
		require.Equal(t, "{}", string(asked[0].Body))
		r.deliver(t, put(t, "s1", 4, "web", body("web", "u1", 2)))
		require.Empty(t, r.row(t, "web").State)
		require.Equal(t, string(body("web", "u1", 2)), string(r.row(t, "web").Body))
	})
}

// More refused records than may be held: fetching waits for them, and all of them
// become final.
func TestManyRefusedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := poisoned(t, func(o *Options) { o.BatchRecords = 10 })
		r.deliver(t, connected(t, "s1"))
		var acked []func() bool
		for n := range 10 {
			var batch []synchronizer.Record
			for k := range 10 {
				name := fmt.Sprintf("poison-%d-%d", n, k)
				batch = append(batch, put(t, "s1", uint64(1+10*n+k), name, body(name, "u", 1)))
			}
			acked = append(acked, r.send(batch...))
		}
		synctest.Wait()
		require.NotEmpty(t, r.batches, "no more is fetched than may be held")
		pass(10 * time.Minute)
		require.Len(t, r.dead, 100)
		require.True(t, acked[9]())
		require.NoError(t, r.ingester.Ready())
	})
}

// A transaction that is run again is a first time for everything in it: a patch
// that does not fit is asked for, and not taken for the answer to that question.
func TestTransactionThatIsRunAgain(t *testing.T) {
	r := newRig(t, func(s synchronizer.Store) synchronizer.Store { return &brokenStore{Store: s, deadlocks: 3} })
	r.deliver(t, connected(t, "s1"), put(t, "s1", 1, "web", body("web", "u", 1)), change(t, "s1", 2, "web", `{"spec":null}`, "not this"))
	asked := r.questions(t)
	require.Len(t, asked, 1)
	require.Equal(t, synchronizer.EventGet, asked[0].Event)
	require.Zero(t, r.drops.of(synchronizer.DropPatchBase))
}
