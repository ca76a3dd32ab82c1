// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// trimEvery is the least time between two removals.
const trimEvery = 250 * time.Millisecond

// trimmer removes from out what every group has acknowledged.
type trimmer struct {
	js     jetstream.JetStream
	stream string
	logger *slog.Logger
	wake   chan struct{}
}

// poke asks for a removal soon. It does not block.
func (t *trimmer) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *trimmer) run(ctx context.Context) {
	t.poke() // what was acknowledged just before the last end
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		if err := t.trim(ctx); err != nil && ctx.Err() == nil {
			t.logger.Warn("queue does not remove what was acknowledged", "stream", t.stream, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(trimEvery):
		}
	}
}

func (t *trimmer) trim(ctx context.Context) error {
	stream, err := t.js.Stream(ctx, t.stream)
	if err != nil {
		return fmt.Errorf("reading stream: %w", err)
	}
	var (
		floor  uint64
		groups int
	)
	consumers := stream.ListConsumers(ctx)
	for info := range consumers.Info() {
		if info.Config.Durable == "" {
			continue
		}
		if groups++; groups == 1 || info.AckFloor.Stream < floor {
			floor = info.AckFloor.Stream
		}
	}
	if err := consumers.Err(); err != nil {
		return fmt.Errorf("reading consumers: %w", err)
	}
	if groups == 0 || floor < stream.CachedInfo().State.FirstSeq {
		return nil
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(floor+1)); err != nil {
		return fmt.Errorf("removing: %w", err)
	}
	return nil
}
