// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
)

const (
	leaveTimeout = 5 * time.Second
	// settleTimeout bounds how long Consume waits until the members of the group
	// have shared the partitions; groups with many members may never rest.
	settleTimeout = 15 * time.Second
	settlePause   = 50 * time.Millisecond
)

// consumer is one member of a group.
//
// The client calls assigned, revoked and lost between polls only: its option
// BlockRebalanceOnPoll holds them back from the moment a poll brings records until
// those stand in pending.
type consumer struct {
	q      *Queue
	group  string
	client *kgo.Client
	ctx    context.Context // ends with ErrClosed
	end    context.CancelCauseFunc
	once   sync.Once

	// commits is held by whoever commits, and by whoever gives partitions up, so
	// that nothing is committed for another member's partition. Before mu.
	commits chan struct{}

	mu sync.Mutex
	pending
	last     uint64         // number of the last batch
	unacked  []unackedBatch // ascending
	moving   chan struct{}  // closed when the partitions have moved; nil: they rest
	groupErr error          // the last one that ended a session of the group
}

// unackedBatch says where a batch has ended, per partition.
type unackedBatch struct {
	number uint64
	member string // the id under which it was read
	ends   map[int32]kgo.EpochOffset
}

// Consume implements synchronizer.Queue. It returns when the group has shared the
// partitions, so that a key does not change its member right away.
func (q *Queue) Consume(ctx context.Context, group string) (synchronizer.Consumer, error) {
	ctx, done := q.join(ctx)
	defer done()
	if group == "" {
		return nil, fmt.Errorf("%w: group has no name", synchronizer.ErrInvalid)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("joining group %q: %w", group, context.Cause(ctx))
	}
	options, err := q.readerOptions(q.watch)
	if err != nil {
		return nil, fmt.Errorf("joining group %q: %w", group, err)
	}
	c := &consumer{q: q, group: group, commits: make(chan struct{}, 1), pending: pending{names: partitionNames{topic: q.OutTopic}}}
	c.ctx, c.end = context.WithCancelCause(q.ctx)
	c.client, err = kgo.NewClient(append(options,
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(q.OutTopic),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(q.session),
		kgo.HeartbeatInterval(q.heartbeat),
		kgo.OnPartitionsAssigned(c.assigned),
		kgo.OnPartitionsRevoked(c.revoked),
		kgo.OnPartitionsLost(c.lost),
		kgo.WithHooks(q.watch, (*groupErrors)(c)),
	)...)
	if err != nil {
		return nil, fmt.Errorf("joining group %q: %w", group, err)
	}
	err = c.settle(ctx)
	if err == nil {
		err = q.addReader(c)
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("joining group %q: %w", group, err)
	}
	return c, nil
}

// settle waits until every partition has a member, and this one is in the group.
func (c *consumer) settle(ctx context.Context) error {
	limit := time.NewTimer(settleTimeout)
	defer limit.Stop()
	inGroup := false
	for {
		rest, err := c.settled(ctx, &inGroup)
		switch {
		case rest:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		case errors.Is(err, kerr.GroupAuthorizationFailed), errors.Is(err, kerr.TopicAuthorizationFailed):
			return fmt.Errorf("%w: %w", synchronizer.ErrForbidden, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(settlePause):
		case <-limit.C:
			if inGroup {
				return nil
			}
			limit.Reset(settleTimeout)
		}
	}
}

// settled tells whether the group rests; err says why not.
func (c *consumer) settled(ctx context.Context, inGroup *bool) (bool, error) {
	c.mu.Lock()
	err := c.groupErr
	c.mu.Unlock()
	if errors.Is(err, kerr.GroupAuthorizationFailed) || errors.Is(err, kerr.TopicAuthorizationFailed) {
		return false, err
	}
	member, _ := c.client.GroupMetadata()
	if member == "" {
		return false, errors.New("not in the group yet")
	}
	groups, err := c.q.admin.DescribeGroups(ctx, c.group)
	if err != nil {
		return false, err
	}
	topics, err := c.q.admin.ListTopics(ctx, c.q.OutTopic)
	if err != nil {
		return false, err
	}
	described := groups[c.group]
	assigned := 0
	for i := range described.Members {
		m := &described.Members[i]
		*inGroup = *inGroup || m.MemberID == member
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				if t.Topic == c.q.OutTopic {
					assigned += len(t.Partitions)
				}
			}
		}
	}
	if described.State == "Stable" && *inGroup && assigned >= len(topics[c.q.OutTopic].Partitions) {
		return true, nil
	}
	return false, fmt.Errorf("group is in state %q with %d assigned partitions", described.State, assigned)
}

// Next implements synchronizer.Consumer.
func (c *consumer) Next(ctx context.Context, most, maxBytes int) (synchronizer.Batch, error) {
	ctx, done := joined(ctx, c.ctx)
	defer done()
	for {
		if ctx.Err() != nil {
			return synchronizer.Batch{}, fmt.Errorf("reading records: %w", context.Cause(ctx))
		}
		c.mu.Lock()
		if len(c.records) > 0 {
			defer c.mu.Unlock()
			return c.batch(most, maxBytes), nil
		}
		moving := c.moving
		c.mu.Unlock()
		if moving != nil { // a poll would wait for it too, but not for ctx
			select {
			case <-moving:
			case <-ctx.Done():
			}
			continue
		}
		if err := poll(ctx, c.client, most, c.q.Logger, c.take); err != nil {
			return synchronizer.Batch{}, err
		}
	}
}

func (c *consumer) take(fetches kgo.Fetches) {
	c.mu.Lock()
	c.add(fetches)
	c.mu.Unlock()
	c.client.AllowRebalance()
}

// batch needs mu and a pending record.
func (c *consumer) batch(most, maxBytes int) synchronizer.Batch {
	records := c.cut(most, maxBytes)
	c.last++
	member, _ := c.client.GroupMetadata()
	b := unackedBatch{number: c.last, member: member, ends: map[int32]kgo.EpochOffset{}}
	for _, r := range records {
		b.ends[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
	}
	c.unacked = append(c.unacked, b)
	return synchronizer.Batch{
		Records: c.translate(records),
		Ack:     func(ctx context.Context) error { return c.ack(ctx, b.number) },
	}
}

// Close implements synchronizer.Consumer. Batches that were returned cannot be
// acknowledged any more: they belong to the next member.
func (c *consumer) Close() error {
	c.once.Do(func() {
		c.end(synchronizer.ErrClosed)
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		c.client.AllowRebalance()
		// If the broker does not answer, the session ends by itself.
		_ = c.client.LeaveGroupContext(ctx)
		c.client.CloseAllowingRebalance()
		c.q.removeReader(c)
	})
	return nil
}
