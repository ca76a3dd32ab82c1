// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/queue"
	"synchronizer/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	cluster     = synchronizer.ClusterID{Account: "acc", Cluster: "c1"}
	deployments = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
)

// script is a queue whose batches a test lays out; what is published is kept.
type script struct {
	batches chan synchronizer.Batch

	mu         sync.Mutex
	in         []synchronizer.Record
	dead       []synchronizer.Record
	acked      int
	publishErr error
}

func newScript() *script { return &script{batches: make(chan synchronizer.Batch, 1000)} }

func (s *script) Publish(_ context.Context, to synchronizer.Direction, records []synchronizer.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.publishErr != nil {
		return s.publishErr
	}
	if to == synchronizer.DeadLetter {
		s.dead = append(s.dead, records...)
		return nil
	}
	for i := range records {
		s.in = append(s.in, records[i])
		s.in[len(s.in)-1].Payload = bytes.Clone(records[i].Payload) // not to be kept after the return
	}
	return nil
}

func (s *script) Tail(context.Context) (synchronizer.Tail, error) { return nil, errors.ErrUnsupported }
func (s *script) Close(context.Context) error                     { return nil }

func (s *script) Consume(context.Context, string) (synchronizer.Consumer, error) {
	return scriptConsumer{s}, nil
}

type scriptConsumer struct{ *script }

func (c scriptConsumer) Close() error { return nil }

func (c scriptConsumer) Next(ctx context.Context, _, _ int) (synchronizer.Batch, error) {
	select {
	case b := <-c.batches:
		return b, nil
	case <-ctx.Done():
		return synchronizer.Batch{}, ctx.Err()
	}
}

// deliver puts one batch on the queue and waits until it is acknowledged.
func (s *script) deliver(t require.TestingT, records ...synchronizer.Record) {
	done := make(chan struct{})
	s.batches <- synchronizer.Batch{Records: records, Ack: func(context.Context) error {
		s.mu.Lock()
		s.acked++
		s.mu.Unlock()
		close(done)
		return nil
	}}
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.FailNow(t, "the batch was not acknowledged")
	}
}

// questions takes what was published on In since the last call.
func (s *script) questions(t require.TestingT) []synchronizer.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []synchronizer.Message
	for i := range s.in {
		m, err := queue.Decode(&s.in[i])
		require.NoError(t, err)
		list = append(list, m)
	}
	s.in = nil
	return list
}

// drops counts drops by reason.
type drops struct {
	mu     sync.Mutex
	counts map[synchronizer.DropReason]int
	named  []string
}

func (d *drops) drop(reason synchronizer.DropReason, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[reason]++
	d.named = append(d.named, what)
}

func (d *drops) of(reason synchronizer.DropReason) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[reason]
}

// rig is an ingester that runs on a script and a real SQLite.
type rig struct {
	*script
	store    *sqlite.DB
	ingester *Ingester
	drops    *drops
	ctx      context.Context // of the test
	stop     func()
}

func newRig(t *testing.T, wrap func(synchronizer.Store) synchronizer.Store) *rig {
	t.Helper()
	return newRigAt(t, filepath.Join(t.TempDir(), "test.db"), func(o *Options) {
		if wrap != nil {
			o.Store = wrap(o.Store)
		}
	})
}

// newRigAt works on the database at path; change may alter the options.
func newRigAt(t *testing.T, path string, change func(*Options)) *rig {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	r := &rig{ctx: t.Context(), script: newScript(), store: db, drops: &drops{counts: map[synchronizer.DropReason]int{}}}
	options := Options{
		Queue: r.script, Store: db, Inventory: db, Encoder: queue.Encoder{Encoding: queue.Compact},
		Group: "g", BatchRecords: 500, BatchBytes: 8 << 20,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Drop: r.drops.drop,
	}
	if change != nil {
		change(&options)
	}
	r.ingester = New(options)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.ingester.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, db.Close())
	})
	t.Cleanup(r.stop)
	return r
}

// row reads the stored row of an object, nil if there is none.
func (r *rig) row(t require.TestingT, name string) *synchronizer.Row {
	row, err := r.store.Object(r.ctx, synchronizer.ObjectKey{ClusterID: cluster, Kind: deployments, Namespace: "default", Name: name})
	if errors.Is(err, synchronizer.ErrNotFound) {
		return nil
	}
	require.NoError(t, err)
	return row
}

// body is an object's JSON; version makes it another state, uid another object.
func body(name, uid string, version int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":"%d"},"spec":{"replicas":%d}}`,
		name, uid, 100+version, version)
}

func sum(t require.TestingT, doc []byte) string {
	s, err := checksum.V1(doc)
	require.NoError(t, err)
	return s
}

// say builds the record that a server makes of a client's message.
func say(t require.TestingT, source string, seq uint64, m synchronizer.Message) synchronizer.Record {
	m.ClusterID, m.Stamp = cluster, synchronizer.Stamp{Source: source, Seq: seq}
	if m.Event.AboutObject() {
		m.Kind, m.Namespace = deployments, "default"
	}
	if m.MsgID == "" {
		m.MsgID = fmt.Sprintf("%s-%d", source, seq)
	}
	if m.Depth == 0 {
		m.Depth = 2
	}
	enc := queue.Encoder{Encoding: queue.Compact, Producer: queue.Server}
	r, err := enc.Encode(&m, queue.Extra{Link: "v1"})
	require.NoError(t, err)
	return r
}

func connected(t require.TestingT, source string) synchronizer.Record {
	return say(t, source, 0, synchronizer.Message{Event: synchronizer.EventServerConnected})
}

func put(t require.TestingT, source string, seq uint64, name string, doc []byte) synchronizer.Record {
	return say(t, source, seq, synchronizer.Message{Event: synchronizer.EventPut, Name: name, Body: doc, Checksum: sum(t, doc)})
}

func verify(t require.TestingT, source string, seq uint64, name, checksum string) synchronizer.Record {
	return say(t, source, seq, synchronizer.Message{Event: synchronizer.EventVerify, Name: name, Checksum: checksum})
}

func remove(t require.TestingT, source string, seq uint64, name string) synchronizer.Record {
	return say(t, source, seq, synchronizer.Message{Event: synchronizer.EventDelete, Name: name})
}

func change(t require.TestingT, source string, seq uint64, name, patch, checksum string) synchronizer.Record {
	return say(t, source, seq, synchronizer.Message{Event: synchronizer.EventPatch, Name: name, Body: []byte(patch), Checksum: checksum})
}

// brokenStore fails Update while err is set, or refuses batches that hold poison
// in a name or a body. Each transaction is run so many times more as there are
// deadlocks.
type brokenStore struct {
	synchronizer.Store
	mu                 sync.Mutex
	err                error
	tries              int
	poison, poisonBody string
	deadlocks          int
}

func (b *brokenStore) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *brokenStore) refuse(poison string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.poison = poison
}

func (b *brokenStore) tried() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tries
}

var errDeadlock = errors.New("deadlock")

func (b *brokenStore) Update(ctx context.Context, fn func(synchronizer.Tx) error) error {
	b.mu.Lock()
	b.tries++
	err, poison := b.err, b.poison
	b.mu.Unlock()
	if err != nil {
		return err
	}
	for range b.deadlocks {
		_ = b.Store.Update(ctx, func(tx synchronizer.Tx) error { return errors.Join(fn(tx), errDeadlock) })
	}
	return b.Store.Update(ctx, func(tx synchronizer.Tx) error { return fn(poisonTx{tx, poison, b.poisonBody}) })
}

type poisonTx struct {
	synchronizer.Tx
	poison, poisonBody string
}

func (p poisonTx) Write(ctx context.Context, rows []synchronizer.Row) error {
	for i := range rows {
		if p.poison != "" && strings.Contains(rows[i].Key.Name, p.poison) || p.poisonBody != "" && bytes.Contains(rows[i].Body, []byte(p.poisonBody)) {
			return fmt.Errorf("%w: the database refuses this row", synchronizer.ErrInvalid)
		}
	}
	return p.Tx.Write(ctx, rows)
}

// silentStore does not answer while it is on, until its context ends.
type silentStore struct {
	synchronizer.Store
	on atomic.Bool
}

func (s *silentStore) Update(ctx context.Context, fn func(synchronizer.Tx) error) error {
	if s.on.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Store.Update(ctx, fn)
}
