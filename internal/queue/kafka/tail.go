// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
)

const (
	tailRecords = 512
	tailBytes   = 4 << 20
	askPause    = 250 * time.Millisecond
)

// tail reads partitions by number, without a group.
type tail struct {
	q      *Queue
	client *kgo.Client
	pending
	ctx   context.Context // ends with ErrClosed
	end   context.CancelCauseFunc
	tasks sync.WaitGroup
	once  sync.Once
}

// Tail implements synchronizer.Queue. When it returns, the place where it begins
// is known for every partition.
func (q *Queue) Tail(ctx context.Context) (synchronizer.Tail, error) {
	ctx, done := q.join(ctx)
	defer done()
	ends, err := q.ends(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting tail: %w", err)
	}
	options, err := q.readerOptions(q.watch)
	if err != nil {
		return nil, fmt.Errorf("starting tail: %w", err)
	}
	client, err := kgo.NewClient(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{q.InTopic: ends}))...)
	if err != nil {
		return nil, fmt.Errorf("starting tail: %w", err)
	}
	t := &tail{q: q, client: client, pending: pending{names: partitionNames{topic: q.InTopic}}}
	t.ctx, t.end = context.WithCancelCause(q.ctx)
	t.tasks.Go(func() { t.discover(ends) })
	if err := q.addReader(t); err != nil {
		_ = t.Close()
		return nil, fmt.Errorf("starting tail: %w", err)
	}
	return t, nil
}

// ends asks until it knows the end of every partition of in.
func (q *Queue) ends(ctx context.Context) (map[int32]kgo.Offset, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		listed, err := q.admin.ListEndOffsets(ctx, q.InTopic)
		if err == nil {
			err = listed.Error()
		}
		if err == nil && len(listed[q.InTopic]) > 0 {
			ends := map[int32]kgo.Offset{}
			for partition, end := range listed[q.InTopic] {
				ends[partition] = kgo.NewOffset().At(end.Offset)
			}
			return ends, nil
		}
		if err == nil {
			err = fmt.Errorf("topic %s has no partitions", q.InTopic)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		case <-time.After(askPause):
		}
	}
}

// discover adds partitions that appear later, from their beginning. known belongs
// to it.
func (t *tail) discover(known map[int32]kgo.Offset) {
	tick := time.NewTicker(t.q.partitionScan)
	defer tick.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-tick.C:
		}
		details, err := t.q.admin.ListTopics(t.ctx, t.q.InTopic)
		if err != nil || details.Error() != nil {
			continue // the next time
		}
		added := map[int32]kgo.Offset{}
		for partition := range details[t.q.InTopic].Partitions {
			if _, ok := known[partition]; !ok {
				added[partition] = kgo.NewOffset().AtStart()
				known[partition] = added[partition]
			}
		}
		if len(added) > 0 {
			t.q.Logger.Info("the topic has new partitions; reading them from their beginning", "topic", t.q.InTopic, "partitions", len(added))
			t.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{t.q.InTopic: added})
		}
	}
}

// Next implements synchronizer.Tail.
func (t *tail) Next(ctx context.Context) ([]synchronizer.Record, error) {
	ctx, done := joined(ctx, t.ctx)
	defer done()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading records: %w", context.Cause(ctx))
	}
	if len(t.records) == 0 {
		if err := poll(ctx, t.client, tailRecords, t.q.Logger, t.add); err != nil {
			return nil, err
		}
	}
	return t.translate(t.cut(tailRecords, tailBytes)), nil
}

// Close implements synchronizer.Tail.
func (t *tail) Close() error {
	t.once.Do(func() {
		t.end(synchronizer.ErrClosed)
		t.tasks.Wait()
		t.client.Close()
		t.q.removeReader(t)
	})
	return nil
}
