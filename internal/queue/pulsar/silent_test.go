// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/backoff"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/test/brokers"
)

// scripted is a reader or subscription of a library whose broker hands topics over:
// it gives the messages that the test puts into it.
type scripted struct {
	from     client.MessageID // where it begins
	policy   func() backoff.Policy
	messages chan client.ConsumerMessage
	begun    chan struct{} // has a value for each acknowledgement that has begun
	answer   chan struct{} // acknowledgements wait until it is closed
	acking   atomic.Int64
	reading  atomic.Int64
	closed   chan struct{}
	unknown  bool // to the broker
	lost     bool // while the broker is asked
	t        *testing.T
}

func (s *scripted) give(numbers ...int64) {
	for _, n := range numbers {
		s.messages <- client.ConsumerMessage{Message: fakeMessage{number: n}}
	}
}

func (s *scripted) Chan() <-chan client.ConsumerMessage { return s.messages }

func (s *scripted) Next(ctx context.Context) (client.Message, error) {
	s.reading.Add(1)
	defer s.reading.Add(-1)
	select {
	case m := <-s.messages:
		return m.Message, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *scripted) AckIDList([]client.MessageID) error {
	s.acking.Add(1)
	defer s.acking.Add(-1)
	s.begun <- struct{}{}
	<-s.answer
	return nil
}

// GetLastMessageID does what the library does: it asks how long to wait when the
// broker refuses, and then waits.
func (s *scripted) GetLastMessageID() (client.MessageID, error) {
	if s.lost {
		s.policy() // another goroutine of the library reconnects
	}
	policy := s.policy()
	if s.unknown || s.lost {
		if policy.Next() <= operationTimeout {
			s.t.Error("the library asks again, perhaps one that is closed meanwhile, which never answers")
		}
		<-s.answer
		return nil, context.DeadlineExceeded
	}
	return client.NewMessageID(1, 0, -1, 0), nil
}

func (s *scripted) GetLastMessageIDs() ([]client.TopicMessageID, error) {
	_, err := s.GetLastMessageID()
	return nil, err
}

func (s *scripted) Close() {
	if s.acking.Load() > 0 {
		s.t.Error("closed with an acknowledgement on its way, which is never answered then")
	}
	close(s.closed)
}

// script lets a queue have only such readers and subscriptions, and gives each when
// it is made. Before that, prepare may change it.
func script(t *testing.T, q *Queue, prepare func(number int, s *scripted)) <-chan *scripted {
	all := make(chan *scripted, 100)
	answer := make(chan struct{})
	var number atomic.Int64
	create := func(from client.MessageID, policy func() backoff.Policy) *scripted {
		s := &scripted{
			from: from, policy: policy, t: t, answer: answer,
			messages: make(chan client.ConsumerMessage, 10), begun: make(chan struct{}, 10), closed: make(chan struct{}),
		}
		prepare(int(number.Add(1)), s)
		all <- s
		return s
	}
	q.newReader = func(_ string, from client.MessageID, policy func() backoff.Policy) (messageReader, error) {
		return create(from, policy), nil
	}
	q.subscribe = func(_ string, policy func() backoff.Policy) (subscription, error) { return create(nil, policy), nil }
	t.Cleanup(func() { close(answer) }) // before the queue is closed
	return all
}

// take is what comes, within reason; of a closed channel nothing.
func take[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-bounded(t).Done():
		require.FailNow(t, "nothing comes")
		panic("unreachable")
	}
}

// TestAcknowledgementUnanswered: a broker that hands a topic over does not answer
// what reaches it too late. The member begins anew, also if its caller has no time to
// wait for that, and what it had comes again. An old batch cannot be acknowledged.
func TestAcknowledgementUnanswered(t *testing.T) {
	for name, impatient := range map[string]bool{"caller waits": false, "caller goes": true} {
		t.Run(name, func(t *testing.T) {
			config := configOn(t, brokers.SharedPulsar(t))
			config.ackPatience, config.RedeliveryDelay = 50*time.Millisecond, time.Millisecond
			q := openQueue(t, config)
			answered := make(chan struct{})
			close(answered)
			all := script(t, q, func(number int, s *scripted) {
				if number > 1 {
					s.answer = answered
				}
			})
			c, err := q.Consume(t.Context(), "silent")
			require.NoError(t, err)
			first := take(t, all)
			first.give(1, 2)
			ctx := bounded(t)
			batch, err := c.Next(ctx, 1, 1<<20)
			require.NoError(t, err)
			second, err := c.Next(ctx, 1, 1<<20)
			require.NoError(t, err)

			calling, leave := context.WithCancel(ctx)
			defer leave()
			result := make(chan error, 1)
			go func() { result <- batch.Ack(calling) }()
			take(t, first.begun)
			if impatient {
				leave()
				require.ErrorIs(t, take(t, result), context.Canceled)
			} else {
				require.ErrorIs(t, take(t, result), errUnanswered)
			}
			again := take(t, all)
			require.ErrorIs(t, second.Ack(ctx), errAnew)
			again.give(1)
			batch, err = c.Next(ctx, 1, 1<<20)
			require.NoError(t, err)
			require.Equal(t, "0", string(batch.Records[0].Payload))
			require.NoError(t, batch.Ack(ctx))
			select {
			case <-first.closed:
				t.Fatal("closed before its acknowledgement was answered")
			default:
			}
		})
	}
}

// TestHandedOverMeanwhile: what the broker hands over before the library listens is
// not kept: nothing would ever come.
func TestHandedOverMeanwhile(t *testing.T) {
	for _, gone := range []int{1, 2} { // a tail has two readers, one after the other
		q := openQueue(t, configOn(t, brokers.SharedPulsar(t)))
		all := script(t, q, func(number int, s *scripted) { s.unknown, s.lost = number == gone, number == gone+1 })
		tail, err := q.Tail(bounded(t))
		require.NoError(t, err)
		for range 3 {
			take(t, all)
		}
		take(t, all).give(1)
		requireNumbers(t, tailAll(t, tail, 1), 0, 1)
	}
	q := openQueue(t, configOn(t, brokers.SharedPulsar(t)))
	all := script(t, q, func(number int, s *scripted) { s.unknown = number == 1 })
	c, err := q.Consume(bounded(t), "meanwhile")
	require.NoError(t, err)
	take(t, all)
	take(t, all).give(1)
	batch, err := c.Next(bounded(t), 1, 1<<20)
	require.NoError(t, err)
	require.Len(t, batch.Records, 1)
}

// TestTailLosesItsConnection: the library is held back until nobody reads, and what
// it still gives is not taken: the next reader begins behind the last record.
func TestTailLosesItsConnection(t *testing.T) {
	q := openQueue(t, configOn(t, brokers.SharedPulsar(t)))
	all := script(t, q, func(int, *scripted) {})
	tail, err := q.Tail(t.Context())
	require.NoError(t, err)
	take(t, all)
	first := take(t, all)
	first.give(1, 2)
	requireNumbers(t, tailAll(t, tail, 2), 0, 2)
	require.Eventually(t, func() bool { return first.reading.Load() == 1 }, patience, time.Millisecond)
	first.policy()
	require.Zero(t, first.reading.Load(), "the library may go on, and somebody reads")
	first.give(9)
	next := take(t, all)
	require.Equal(t, int64(2), next.from.EntryID())
	next.give(3)
	requireNumbers(t, tailAll(t, tail, 1), 2, 3)
	take(t, first.closed)
}

// TestConsumerLosesItsConnection: delivery begins anew, and what was fetched before
// is neither given nor acknowledged.
func TestConsumerLosesItsConnection(t *testing.T) {
	config := configOn(t, brokers.SharedPulsar(t))
	config.RedeliveryDelay = time.Millisecond
	q := openQueue(t, config)
	all := script(t, q, func(int, *scripted) {})
	c, err := q.Consume(t.Context(), "lost")
	require.NoError(t, err)
	first := take(t, all)
	first.give(1)
	ctx := bounded(t)
	batch, err := c.Next(ctx, 1, 1<<20)
	require.NoError(t, err)
	first.policy()
	next := take(t, all)
	take(t, first.closed)
	require.ErrorIs(t, batch.Ack(ctx), errAnew)
	first.give(2)
	next.give(1)
	batch, err = c.Next(ctx, 10, 1<<20)
	require.NoError(t, err)
	requireNumbers(t, batch.Records, 0, 1)
}

// TestProducerLosesItsConnection: it is replaced, not left to the library, which
// changes what it is just writing.
func TestProducerLosesItsConnection(t *testing.T) {
	p := brokers.SharedPulsar(t)
	config := configOn(t, p)
	q := openQueue(t, config)
	require.NoError(t, q.Publish(bounded(t), synchronizer.Out, numbered("account/cluster", 0, 1)))
	first, ok := q.lanes[synchronizer.Out].small.(*sender)
	require.True(t, ok)
	unload(t, p, config.OutTopic)
	require.Eventually(t, func() bool { return first.ending.Err() != nil }, patience, time.Millisecond)
	require.NoError(t, q.Publish(bounded(t), synchronizer.Out, numbered("account/cluster", 1, 2)))
	require.NotSame(t, first, q.lanes[synchronizer.Out].small)
}
