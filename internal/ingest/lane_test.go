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

// of makes a record one of another cluster.
func of(r synchronizer.Record, name string) synchronizer.Record {
	for i := range r.Properties {
		if r.Properties[i].Name == "cluster" {
			r.Properties[i].Value = name
		}
	}
	r.Key = "acc/" + name
	return r
}

// gate is a store whose transactions take a second, and which notes how many run at
// once.
type gate struct {
	synchronizer.Store
	running, most chan int
}

func (g *gate) Update(ctx context.Context, fn func(synchronizer.Tx) error) error {
	g.running <- 0
	time.Sleep(time.Second) // of the bubble
	g.most <- len(g.running)
	<-g.running
	return g.Store.Update(ctx, fn)
}

// Several transactions run at once, each about other clusters; what is said of
// one cluster stays in order, and a batch is acknowledged when all of it is final.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{running: make(chan int, 100), most: make(chan int, 1000)}
		r := newRigAt(t, t.TempDir()+"/test.db", func(o *Options) {
			g.Store, o.Store, o.Workers = o.Store, g, 8
		})
		var batch []synchronizer.Record
		for version := range 5 {
			for n := range 41 {
				batch = append(batch, of(put(t, "s1", uint64(version+1), "web", body("web", "u", version)), fmt.Sprint("c", n)))
			}
		}
		r.deliver(t, batch...)
		for n := range 41 {
			row, err := r.store.Object(t.Context(), synchronizer.ObjectKey{
				ClusterID: synchronizer.ClusterID{Account: "acc", Cluster: fmt.Sprint("c", n)}, Kind: deployments, Namespace: "default", Name: "web",
			})
			require.NoError(t, err)
			require.Equal(t, string(body("web", "u", 4)), string(row.Body))
		}
		most := 0
		for range len(g.most) {
			most = max(most, <-g.most)
		}
		require.Greater(t, most, 1)
		require.Zero(t, r.drops.of(synchronizer.DropStale), "in order")
	})
}

// Acknowledgements are in the order of the batches, and stand for those before.
func TestAcknowledgementsAreInOrder(t *testing.T) {
	l := newLedger(100, 1<<20)
	acked := []int{}
	enter := func(n int) []item {
		items := make([]item, 2)
		for k := range items {
			items[k].record = &synchronizer.Record{}
		}
		l.enter(items, func(context.Context) error {
			acked = append(acked, n)
			return nil
		})
		return items
	}
	first, second, third := enter(1), enter(2), enter(3)
	drain := func() {
		for ack := l.take(); ack != nil; ack = l.take() {
			require.NoError(t, ack(t.Context()))
		}
	}
	l.leave(second)
	l.leave(first[:1])
	drain()
	require.Empty(t, acked)
	l.leave(first[1:])
	drain()
	require.Equal(t, []int{2}, acked)
	l.leave(third)
	drain()
	require.Equal(t, []int{2, 3}, acked)
	require.Zero(t, l.records)
	require.Zero(t, l.bytes)
	require.Zero(t, l.open)
}

// No more is taken from the broker than is being worked on, while the database
// does not answer: and the ingester says that it waits.
func TestSilentDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &silentStore{}
		r := newRigAt(t, t.TempDir()+"/test.db", func(o *Options) {
			silent.Store, o.Store, o.BatchRecords = o.Store, silent, 3
		})
		r.deliver(t, connected(t, "s1"))
		require.NoError(t, r.ingester.Ready())
		silent.on.Store(true)
		var acked []func() bool
		for n := range 20 {
			name := fmt.Sprint("a", n)
			acked = append(acked, r.send(put(t, "s1", uint64(n+1), name, body(name, "u", 1))))
		}
		pass(time.Second)
		require.GreaterOrEqual(t, len(r.batches), 16)
		pass(slowAfter)
		require.ErrorContains(t, r.ingester.Ready(), "writing records: no answer for")
		silent.on.Store(false) // the connection that is waited for stays dead
		pass(transactionLimit)
		require.True(t, acked[19]())
		require.NoError(t, r.ingester.Ready())
		require.Empty(t, r.dead)
	})
}

// A database that goes away is noticed without a record.
func TestIdleDatabaseThatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &brokenStore{err: errors.New("away")}
		r := newRig(t, func(s synchronizer.Store) synchronizer.Store {
			store.Store = s
			return store
		})
		synctest.Wait()
		require.ErrorContains(t, r.ingester.Ready(), "away", "never ready before it has answered")
		store.set(nil)
		pass(time.Second)
		require.NoError(t, r.ingester.Ready())
		store.set(errors.New("gone"))
		pass(2 * probeEvery)
		require.ErrorContains(t, r.ingester.Ready(), "gone")
		store.set(nil)
		pass(time.Minute)
		require.NoError(t, r.ingester.Ready())
	})
}

// Parts of a batch of requests that cannot be read are named; the others are
// answered.
func TestRequestsBesideABadOne(t *testing.T) {
	r := newRig(t, nil)
	r.deliver(t, connected(t, "s1"), put(t, "s1", 1, "web", body("web", "u", 1)))
	r.deliver(t, synchronizer.Record{
		Properties: []synchronizer.Property{{Name: "event", Value: "ReconciliationRequestBatch"}},
		Payload:    []byte(`{"depth":1,"requests":[{"account":"a/b","cluster":"c","serverInitiated":true},{"account":"acc","cluster":"c1","msgId":"m","serverInitiated":true}]}`),
	})
	require.Equal(t, map[string]string{"apps/v1/deployments": "default/web@101"}, lists(t, r.questions(t)))
	require.Equal(t, 1, r.drops.of(synchronizer.DropMalformed))
	require.Empty(t, r.dead)
}
