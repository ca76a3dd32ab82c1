// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"synchronizer"
)

// The least time between two removals, of which each costs the broker about as much
// as a thousand records; and when the stream is full and publishers wait.
const (
	trimEvery     = time.Second
	trimEveryFull = 250 * time.Millisecond
)

// trimmer removes from out what every group has acknowledged.
type trimmer struct {
	settings
	js   jetstream.JetStream
	wake chan struct{}
	full chan struct{}
}

// poke asks for a removal soon. It does not block.
func (t *trimmer) poke() { signal(t.wake) }

// hurry asks for a removal because there is no room left.
func (t *trimmer) hurry() { signal(t.full) }

func (t *trimmer) run(ctx context.Context) {
	t.poke() // what was acknowledged just before the last end
	name := t.streamName(synchronizer.Out)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-t.full:
		}
		if err := t.trim(ctx, name); err != nil && ctx.Err() == nil {
			t.logger.Warn("queue does not remove what was acknowledged", "stream", name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(trimEveryFull):
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(trimEvery - trimEveryFull):
		case <-t.full:
			t.hurry()
		}
	}
}

func (t *trimmer) trim(ctx context.Context, name string) error {
	stream, err := t.js.Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("reading stream: %w", err)
	}
	state := stream.CachedInfo().State
	// The end of what every group has acknowledged, per filter.
	floors := map[string]uint64{}
	consumers := stream.ListConsumers(ctx)
	var durable []*jetstream.ConsumerInfo
	for info := range consumers.Info() { // to its end, or it would wait for ever
		if info.Config.Durable != "" {
			durable = append(durable, info)
		}
	}
	if err := consumers.Err(); err != nil {
		return fmt.Errorf("reading consumers: %w", err)
	}
	for _, info := range durable {
		floor, err := floorOf(ctx, stream, info, state.LastSeq)
		if err != nil {
			return err
		}
		filter := info.Config.FilterSubject
		if before, ok := floors[filter]; !ok || floor < before {
			floors[filter] = floor
		}
	}
	// Records of a partition that has no consumer (while a group is being made, say)
	// wait for one.
	lowest := state.LastSeq
	for _, filter := range t.filters() {
		lowest = min(lowest, floors[filter])
	}
	if lowest >= state.FirstSeq {
		if err := stream.Purge(ctx, jetstream.WithPurgeSequence(lowest+1)); err != nil {
			return fmt.Errorf("removing: %w", err)
		}
		return nil // the rest the next time, if there is still need
	}
	if int64(state.Bytes) < t.outBytes/2 {
		return nil
	}
	// A partition that nobody reads must not keep the room of the others.
	for filter, floor := range floors {
		if filter == "" || floor < state.FirstSeq {
			continue
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(filter), jetstream.WithPurgeSequence(floor+1)); err != nil {
			return fmt.Errorf("removing: %w", err)
		}
	}
	return nil
}

// filters are those of the consumers of a group.
func (s *settings) filters() []string {
	if s.partitions == 1 {
		return []string{""}
	}
	list := make([]string, s.partitions)
	for p := range list {
		list[p] = s.filter(p)
	}
	return list
}

// filter takes the records of one partition.
func (s *settings) filter(partition int) string {
	return s.prefix + "." + synchronizer.Out.String() + "." + strconv.Itoa(partition) + ".>"
}

// floorOf is the number up to which a consumer needs nothing more. end is the last
// number of the stream, read before info.
func floorOf(ctx context.Context, stream jetstream.Stream, info *jetstream.ConsumerInfo, end uint64) (uint64, error) {
	floor := info.AckFloor.Stream
	if info.Config.FilterSubject == "" || info.NumAckPending > 0 || info.NumPending > 0 || floor >= end {
		return floor, nil
	}
	// The floor of a partition stays behind while only others get records. Counters
	// of the broker are not enough to remove by, so look for a record.
	floor = max(floor, info.Delivered.Stream)
	if floor >= end {
		return floor, nil
	}
	next, err := stream.GetMsg(ctx, floor+1, jetstream.WithGetMsgSubject(info.Config.FilterSubject))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return end, nil
	case err != nil:
		return 0, fmt.Errorf("looking for records of %s: %w", info.Config.FilterSubject, err)
	}
	return min(end, next.Sequence-1), nil
}
