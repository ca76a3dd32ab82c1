// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
)

// errPause follows a poll that brought only an error, so that a lasting one (no
// permission, a topic that was deleted) is not asked about in a loop.
const errPause = 500 * time.Millisecond

// poller is the part of the client that poll needs.
type poller interface {
	PollRecords(ctx context.Context, most int) kgo.Fetches
}

// poll waits until take has got at least one record, ctx ends, or the client was
// closed, which is an error: nothing would come any more. The client itself
// reconnects; what it reports meanwhile is logged.
func poll(ctx context.Context, client poller, most int, logger *slog.Logger, take func(kgo.Fetches)) error {
	said := ""
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("reading records: %w", context.Cause(ctx))
		}
		fetches := client.PollRecords(ctx, most)
		n := fetches.NumRecords()
		take(fetches) // always: it lets the group go on
		var failed error
		fetches.EachError(func(topic string, partition int32, err error) {
			failed = err
			if text := err.Error(); text != said && ctx.Err() == nil && !errors.Is(err, kgo.ErrClientClosed) {
				said = text // once, not with every poll
				logger.Warn("reading from Kafka", "topic", topic, "partition", partition, "error", err)
			}
		})
		switch {
		case n > 0:
			return nil
		case errors.Is(failed, kgo.ErrClientClosed) && ctx.Err() == nil:
			return fmt.Errorf("reading records: the client has ended: %w (%w)", synchronizer.ErrClosed, synchronizer.ErrDisconnected)
		case failed != nil:
			select {
			case <-ctx.Done():
			case <-time.After(errPause):
			}
		}
	}
}

// pending are records that were fetched and not yet returned.
type pending struct {
	records []*kgo.Record
	names   partitionNames
}

func (p *pending) add(fetches kgo.Fetches) {
	if n := fetches.NumRecords(); n > 0 && cap(p.records) == 0 {
		p.records = make([]*kgo.Record, 0, n)
	}
	fetches.EachRecord(func(r *kgo.Record) { p.records = append(p.records, r) })
}

// cut takes at most so many records and about so many bytes, one at least.
func (p *pending) cut(most, maxBytes int) []*kgo.Record {
	n, size := 0, 0
	for n < len(p.records) && n < most {
		r := p.records[n]
		size += 64 + len(r.Key) + len(r.Value)
		for i := range r.Headers {
			size += len(r.Headers[i].Key) + len(r.Headers[i].Value)
		}
		if n > 0 && size > maxBytes {
			break
		}
		n++
	}
	out := p.records[:n:n]
	if p.records = p.records[n:]; len(p.records) == 0 {
		p.records = nil // what was returned belongs to the caller
	}
	return out
}

// drop takes out the records of a partition.
func (p *pending) drop(partition int32) {
	kept := make([]*kgo.Record, 0, len(p.records))
	for _, r := range p.records {
		if r.Partition != partition {
			kept = append(kept, r)
		}
	}
	p.records = kept
}

func (p *pending) translate(records []*kgo.Record) []synchronizer.Record {
	out := make([]synchronizer.Record, len(records))
	for i, r := range records {
		out[i] = fromKafka(r, &p.names)
	}
	return out
}
