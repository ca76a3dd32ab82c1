// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"sync"

	client "github.com/apache/pulsar-client-go/pulsar"
)

// sender is a producer that may be closed while others use it: the library closes
// channels then that they are about to send on. Close ends what waits, and begins
// when nobody is inside any more.
type sender struct {
	client.Producer
	using  sync.RWMutex
	ending context.Context
	end    context.CancelFunc
}

func newSender(p client.Producer) *sender {
	s := &sender{Producer: p}
	s.ending, s.end = context.WithCancel(context.Background())
	return s
}

// SendAsync does not block: the window of the queue bounds what is in flight, far
// below what the library would make wait.
func (s *sender) SendAsync(ctx context.Context, m *client.ProducerMessage, answered func(client.MessageID, *client.ProducerMessage, error)) {
	s.using.RLock()
	defer s.using.RUnlock()
	if s.ending.Err() != nil {
		answered(nil, m, errProducerGone)
		return
	}
	s.Producer.SendAsync(ctx, m, answered)
}

// FlushWithCtx waits until all is answered, or the producer is to be closed.
func (s *sender) FlushWithCtx(ctx context.Context) error {
	s.using.RLock()
	defer s.using.RUnlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	err := s.Producer.FlushWithCtx(ctx)
	if err != nil && s.ending.Err() != nil {
		return errProducerGone
	}
	return err
}

// Close may be called again.
func (s *sender) Close() {
	s.end()
	s.using.Lock()
	defer s.using.Unlock()
	s.Producer.Close()
}
