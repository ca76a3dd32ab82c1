// SPDX-License-Identifier: Apache-2.0

package queuetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// Run runs the suite.
func Run(t *testing.T, f Factory) {
	if f.Large == 0 {
		f.Large = 20 << 20
	}
	if f.EachKey == 0 {
		f.EachKey = eachKey
	}
	if f.Patience == 0 {
		f.Patience = 20 * time.Second
	}
	t.Attr("broker", f.Name)
	t.Attr("version", f.Version)
	for _, test := range scenarios {
		t.Run(test.name, func(t *testing.T) {
			t.Attr("scenario", test.what)
			s := &suite{Factory: f}
			if reason := test.lacks(f); reason != "" {
				none(t, reason)
				return
			}
			test.run(t, s)
		})
	}
}

// none tells the table of results why a broker has no such scenario.
func none(t *testing.T, reason string) { t.Attr("none", reason) }

const group = "queuetest"

type suite struct {
	Factory
	queue Open // made by the first use of open
}

// open opens the queue of the test once more.
func (s *suite) open(t *testing.T) synchronizer.Queue {
	t.Helper()
	if s.queue == nil {
		s.queue = s.New(t)
	}
	return s.queue(t)
}

// another is one more process on the queue, for the length of the test; where a
// broker has one process it is q itself.
func (s *suite) another(t *testing.T, q synchronizer.Queue) synchronizer.Queue {
	t.Helper()
	if s.OneMember {
		return q
	}
	return s.start(t)
}

// ctx bounds a step that must end by itself.
func (s *suite) ctx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	t.Cleanup(cancel)
	return ctx
}

// start opens the queue for the length of the test.
func (s *suite) start(t *testing.T) synchronizer.Queue {
	q := s.open(t)
	t.Cleanup(func() { closeQueue(t, q) })
	return q
}

// closeQueue works in cleanups too, where the test's context has ended.
func closeQueue(t *testing.T, q synchronizer.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	require.NoError(t, q.Close(ctx))
}

func (s *suite) publish(t *testing.T, q synchronizer.Queue, to synchronizer.Direction, records ...synchronizer.Record) {
	t.Helper()
	require.NoError(t, q.Publish(s.ctx(t), to, records))
}

func (s *suite) consume(t *testing.T, q synchronizer.Queue) synchronizer.Consumer {
	t.Helper()
	c, err := q.Consume(s.ctx(t), group)
	require.NoError(t, err)
	return c
}

// numbered makes records number from..to-1 of a key.
func numbered(key string, from, to int) []synchronizer.Record {
	records := make([]synchronizer.Record, 0, to-from)
	for i := from; i < to; i++ {
		records = append(records, synchronizer.Record{
			Key:        key,
			Properties: []synchronizer.Property{{Name: "n", Value: strconv.Itoa(i)}},
			Payload:    []byte(fmt.Sprintf(`{"key":%q,"n":%d}`, key, i)),
		})
	}
	return records
}

func number(t *testing.T, r *synchronizer.Record) int {
	t.Helper()
	n, err := numberOf(r)
	require.NoError(t, err)
	return n
}

func numberOf(r *synchronizer.Record) (int, error) {
	n, err := strconv.Atoi(r.Property("n"))
	if err != nil {
		return 0, fmt.Errorf("record of %q has no number: %w", r.Key, err)
	}
	if want := fmt.Sprintf(`{"key":%q,"n":%d}`, r.Key, n); want != string(r.Payload) {
		return 0, fmt.Errorf("payload of %s is %.100q", want, r.Payload)
	}
	return n, nil
}

// progress follows numbered records of several readers: per key each number
// must follow the one before it, or repeat one.
type progress struct {
	mu    sync.Mutex
	next  map[string]int
	new   int
	grown chan struct{} // closed and replaced when new grows
}

func newProgress() *progress {
	return &progress{next: map[string]int{}, grown: make(chan struct{})}
}

func (p *progress) add(records []synchronizer.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		close(p.grown)
		p.grown = make(chan struct{})
	}()
	for i := range records {
		r := &records[i]
		n, err := numberOf(r)
		switch {
		case err != nil:
			return err
		case n > p.next[r.Key]:
			return fmt.Errorf("%s: %d came before %d", r.Key, n, p.next[r.Key])
		case n == p.next[r.Key]:
			p.next[r.Key]++
			p.new++
		}
	}
	return nil
}

// wait returns when n different records came, or with an error when ctx ends.
func (p *progress) wait(ctx context.Context, n int) error {
	for {
		p.mu.Lock()
		count, grown := p.new, p.grown
		p.mu.Unlock()
		if count >= n {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d records came: %w", count, n, context.Cause(ctx))
		}
	}
}

// count is how many different records came.
func (p *progress) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.new
}

// read takes n records and acknowledges each batch.
func (s *suite) read(t *testing.T, c synchronizer.Consumer, n int) []synchronizer.Record {
	t.Helper()
	ctx := s.ctx(t)
	var records []synchronizer.Record
	for len(records) < n {
		batch, err := c.Next(ctx, 500, 4<<20)
		require.NoError(t, err, "after %d of %d records", len(records), n)
		require.NotEmpty(t, batch.Records)
		records = append(records, batch.Records...)
		require.NoError(t, batch.Ack(ctx))
	}
	require.Len(t, records, n)
	return records
}

func (s *suite) readTail(t *testing.T, tail synchronizer.Tail, n int) []synchronizer.Record {
	t.Helper()
	ctx := s.ctx(t)
	var records []synchronizer.Record
	for len(records) < n {
		more, err := tail.Next(ctx)
		require.NoError(t, err, "after %d of %d records", len(records), n)
		require.NotEmpty(t, more)
		records = append(records, more...)
	}
	require.Len(t, records, n)
	return records
}

// quiet checks that next brings nothing for a while.
func quiet(t *testing.T, next func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, next(ctx), context.DeadlineExceeded)
}

func nextOf(c synchronizer.Consumer) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.Next(ctx, 100, 1<<20)
		return err
	}
}

// requireOrder checks that every key has the numbers 0..n-1 in order.
func requireOrder(t *testing.T, records []synchronizer.Record, keys, n int) {
	t.Helper()
	next := map[string]int{}
	for i := range records {
		got := number(t, &records[i])
		require.Equal(t, next[records[i].Key], got, "order of %s", records[i].Key)
		next[records[i].Key]++
	}
	require.Len(t, next, keys)
	for key, got := range next {
		require.Equal(t, n, got, key)
	}
}

// bytesOf makes reproducible bytes that do not compress.
func bytesOf(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte("queuetest"))).Read(b)
	return b
}
