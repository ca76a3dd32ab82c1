// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/nats"
)

// openedQueue is a queue and how records on it are written.
type openedQueue struct {
	synchronizer.Queue
	name     string // for metrics: a value of backend.messageQueue.type
	encoding queue.Encoding
}

// Queue is the backend's own, for what runs in its process and speaks to clusters
// as another producer on the queue would. It ends with Run.
func (b *Backend) Queue() synchronizer.Queue { return b.queue.Queue }

// openQueue opens the queue that backend.messageQueue chooses. understood says
// whether a record for a direction may be sent in parts; nil: always.
func openQueue(ctx context.Context, p *app.Process, c *config.Config, understood func(synchronizer.Direction) bool) (openedQueue, error) {
	o := openedQueue{name: c.Backend.QueueType()}
	var err error
	if o.encoding, err = queue.ParseEncoding(c.QueueEncoding()); err != nil {
		return o, err
	}
	switch o.name {
	case config.QueueEmbedded:
		o.Queue, err = openEmbedded(ctx, p, c)
	default:
		err = fmt.Errorf("%w: backend.messageQueue.type %q is not supported by this version", synchronizer.ErrInvalid, o.name)
	}
	if err != nil {
		return openedQueue{}, err
	}
	return o, nil
}

func openEmbedded(ctx context.Context, p *app.Process, c *config.Config) (synchronizer.Queue, error) {
	e := c.Backend.MessageQueue.Embedded
	q, err := nats.OpenEmbedded(ctx, nats.EmbeddedConfig{Dir: c.QueuePath(), MaxBytes: e.MaxBytes, Logger: p.Logger})
	if err != nil {
		return nil, err // a nil *nats.Queue in the interface would not be nil
	}
	return q, nil
}
