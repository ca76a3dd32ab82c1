// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"time"

	"github.com/google/uuid"

	"synchronizer"
	"synchronizer/internal/queue"
)

// AnnounceEvery is how often an ingester says that it is there. A server that has
// not heard of one for three times as long does what only an ingester of the
// field would understand.
const AnnounceEvery = 10 * time.Second

// unready is how soon an ingester that could not yet write looks again.
const unready = time.Second

// Announce publishes IngesterPresent on In, at once and every AnnounceEvery,
// until ctx ends, except while nothing can be written to the store.
func (i *Ingester) Announce(ctx context.Context) error {
	for {
		wait := unready
		if i.Ready() == nil {
			i.announce(ctx)
			wait = AnnounceEvery
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

func (i *Ingester) announce(ctx context.Context) {
	m := synchronizer.Message{Event: synchronizer.EventIngesterPresent, Depth: 1, MsgID: uuid.NewString()}
	r, err := i.Encoder.Encode(&m, queue.Extra{})
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, AnnounceEvery)
		defer cancel()
		err = i.Queue.Publish(limited, synchronizer.In, []synchronizer.Record{r})
	}
	if err != nil && ctx.Err() == nil {
		i.Logger.Warn("announcing the ingester to servers, trying again", "error", err)
	}
}
