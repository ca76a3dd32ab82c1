// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	commitTimeout = 15 * time.Second
	handoverPause = 10 * time.Millisecond
)

// ack commits what the batches up to this one have ended with, but for partitions
// that have moved since.
func (c *consumer) ack(ctx context.Context, number uint64) error {
	ctx, done := joined(ctx, c.ctx)
	defer done()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := c.commit(ctx, number)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("acknowledging: %w (%w)", context.Cause(ctx), err)
		}
		if !kerr.IsRetriable(err) && !movedOn(err) && !errors.Is(err, context.DeadlineExceeded) && !kgo.IsRetryableBrokerErr(err) {
			return fmt.Errorf("acknowledging: %w", err)
		}
		// While the broker is away this member may lose its partitions; the client
		// tells, and then there is nothing left to commit.
		select {
		case <-ctx.Done():
			return fmt.Errorf("acknowledging: %w (%w)", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// movedOn tells that the broker knows this member no more, or not in this
// generation of the group.
func movedOn(err error) bool {
	for _, code := range []error{kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.FencedMemberEpoch, errOtherMember} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

var errOtherMember = errors.New("this process has joined the group anew")

// commit is one try, for all that belongs to this member now.
func (c *consumer) commit(ctx context.Context, number uint64) error {
	select {
	case c.commits <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.commits }()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	member, _ := c.client.GroupMetadata()
	offsets := c.offsets(number, member)
	if len(offsets) == 0 {
		c.forget(number)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	// The id may change until the request is made: then the offsets may be those of
	// another member.
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		if request.MemberID != member {
			return errOtherMember
		}
		return nil
	})
	var failed error
	c.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{c.q.OutTopic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err != nil {
				return
			}
			for _, topic := range response.Topics {
				for _, partition := range topic.Partitions {
					if failed == nil {
						failed = kerr.ErrorForCode(partition.ErrorCode)
					}
				}
			}
		})
	if failed == nil {
		c.forget(number)
	}
	return failed
}

// offsets are those of the batches up to number that were read under this id.
func (c *consumer) offsets(number uint64, member string) map[int32]kgo.EpochOffset {
	c.mu.Lock()
	defer c.mu.Unlock()
	offsets := map[int32]kgo.EpochOffset{}
	for _, b := range c.unacked {
		if b.number > number || b.member != member {
			continue
		}
		for partition, end := range b.ends {
			offsets[partition] = end // batches ascend, and so do their ends
		}
	}
	return offsets
}

func (c *consumer) forget(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.unacked) && c.unacked[n].number <= number {
		n++
	}
	c.unacked = c.unacked[n:]
}

// assigned: the client begins behind the last commit.
func (c *consumer) assigned(context.Context, *kgo.Client, map[string][]int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groupErr = nil
}

// revoked is called before the partitions go to another member, and the group
// waits for it.
func (c *consumer) revoked(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	partitions := gone[c.q.OutTopic]
	if len(partitions) == 0 {
		return
	}
	moved := make(chan struct{})
	defer close(moved)
	c.mu.Lock()
	c.moving = moved
	for _, p := range partitions {
		c.drop(p)
	}
	c.mu.Unlock()
	c.awaitAcks(partitions)
	c.giveUp(partitions)
}

// lost is called when the group has gone on without this member.
func (c *consumer) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	c.giveUp(gone[c.q.OutTopic])
}

// awaitAcks waits until what was handed out of these partitions is acknowledged,
// for a while.
func (c *consumer) awaitAcks(partitions []int32) {
	limit := time.NewTimer(c.q.handover)
	defer limit.Stop()
	pause := time.NewTicker(handoverPause)
	defer pause.Stop()
	for c.holds(partitions) {
		select {
		case <-c.ctx.Done():
			return
		case <-limit.C:
			c.q.Logger.Info("giving up partitions with records that are not acknowledged; they come again at another member",
				"group", c.group, "partitions", partitions)
			return
		case <-pause.C:
		}
	}
}

func (c *consumer) holds(partitions []int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.unacked {
		for _, p := range partitions {
			if _, ok := b.ends[p]; ok {
				return true
			}
		}
	}
	return false
}

// giveUp forgets all about the partitions.
func (c *consumer) giveUp(partitions []int32) {
	c.commits <- struct{}{}
	defer func() { <-c.commits }()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moving = nil
	for _, p := range partitions {
		c.drop(p)
		for _, b := range c.unacked {
			delete(b.ends, p)
		}
	}
}

// groupErrors notes what ended a session of the group.
type groupErrors consumer

var _ kgo.HookGroupManageError = (*groupErrors)(nil)

// OnGroupManageError is called by the client, which tries again by itself.
func (e *groupErrors) OnGroupManageError(err error) {
	c := (*consumer)(e)
	c.mu.Lock()
	c.groupErr = err
	c.mu.Unlock()
	if c.ctx.Err() == nil {
		c.q.Logger.Warn("the session in the group has ended; joining again", "group", c.group, "error", err)
	}
}
