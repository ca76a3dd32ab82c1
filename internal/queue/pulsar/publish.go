// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"golang.org/x/sync/semaphore"

	"synchronizer"
)

const (
	// inFlight bounds the bytes that are sent and not confirmed, over all calls.
	inFlight       = 16 << 20
	recordOverhead = 1 << 10
	mostInFlight   = inFlight/recordOverhead + 1

	batchBytes    = 128 << 10
	batchMessages = 1000
	// Every call of Publish sends what is gathered, so the producer's own clock
	// hardly has to tick.
	batchDelay = time.Second

	firstPause   = 20 * time.Millisecond
	longestPause = 5 * time.Second
)

// lane is what is sent to one topic. Its two producers are made when they are
// needed, and anew when the library has given one up.
type lane struct {
	topic      string
	q          *Queue
	maxMessage int
	// shared says that members of a group share the topic by key. The library leaves
	// the ordering key out of what stands around a batch, which is all that the broker
	// looks at: batches of a key would go to any member. So each record goes alone.
	shared bool
	lock   chan struct{} // who holds it sends; the fields below belong to it
	small  client.Producer
	large  client.Producer
}

func newLane(q *Queue, topic string, maxMessage int) *lane {
	return &lane{
		topic: topic, q: q, maxMessage: max(maxMessage, smallestMessage), lock: make(chan struct{}, 1),
		shared: topic == q.config.topic(synchronizer.Out),
	}
}

// Limits that follow from the largest message of the broker. A batch of several
// messages stays below it even if the last one brings as much as fits beside it.
func (l *lane) batchLimit() int  { return min(batchBytes, l.maxMessage/2) }
func (l *lane) besideLimit() int { return l.maxMessage / 4 }
func (l *lane) smallLimit() int  { return l.maxMessage / 4 * 3 }

// fits tells whether a batch can carry the record.
func (l *lane) fits(r *synchronizer.Record) bool {
	b := beside(r)
	return b <= l.maxMessage/8 && b+len(r.Payload) <= l.smallLimit()
}

// tooLarge refuses what even chunks cannot carry: the properties are in each.
func (l *lane) tooLarge(r *synchronizer.Record) error {
	size, b := len(r.Payload), beside(r)
	if size+b-256 > l.q.config.MaxRecord || b > l.besideLimit() {
		return fmt.Errorf("publishing to %s: record of %q with %d bytes: %w", l.topic, r.Key, size+b-256, synchronizer.ErrTooLarge)
	}
	return nil
}

func (l *lane) acquire(ctx context.Context) error {
	select {
	case l.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *lane) release() { <-l.lock }

// publish sends all records and waits for them.
func (l *lane) publish(ctx context.Context, records []synchronizer.Record) error {
	var (
		tooLarge synchronizer.TooLargeError
		pause    = firstPause
		next     = 0
	)
	for next < len(records) {
		failed, large, err := l.attempt(ctx, records[next:])
		tooLarge.Take(large, next, failed)
		if err == nil {
			break
		}
		if failed > 0 {
			pause = firstPause
		}
		next += failed
		if ctx.Err() != nil {
			return fmt.Errorf("publishing to %s: %w (%w)", l.topic, context.Cause(ctx), err)
		}
		l.q.config.Logger.Warn("queue: records are not confirmed, sending them again", "topic", l.topic, "records", len(records)-next, "error", err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("publishing to %s: %w (%w)", l.topic, context.Cause(ctx), err)
		case <-time.After(pause):
			pause = min(2*pause, longestPause)
		}
	}
	return tooLarge.OrNil()
}

// attempt sends the records once, in order, and waits until each is confirmed or
// known not to be. failed is the first that was not; everything from there on
// has to be sent again, or a record could stay behind a later one of its key.
// large are the records above the limit, which are not sent.
func (l *lane) attempt(ctx context.Context, records []synchronizer.Record) (failed int, large *synchronizer.TooLargeError, err error) {
	large = &synchronizer.TooLargeError{}
	if err := l.acquire(ctx); err != nil {
		return 0, large, err
	}
	f := newFlight(l.q.window, len(records))
	var used []client.Producer
	for i := range records {
		if f.hasFailed() {
			break
		}
		r := &records[i]
		if err := l.tooLarge(r); err != nil {
			large.Add(i, err)
			continue
		}
		p, err := l.send(ctx, f, i, r)
		if p != nil && (len(used) == 0 || used[len(used)-1] != p) {
			used = append(used, p)
		}
		if err != nil {
			f.answered(i, err)
			break
		}
	}
	small := l.small
	l.release()

	cause := f.push(ctx, small)
	failed, refused, err := f.end(cause)
	for _, i := range refused.At {
		large.Add(i, fmt.Errorf("publishing to %s: %w: %w", l.topic, synchronizer.ErrTooLarge, refused.Err))
	}
	slices.Sort(large.At)
	if err != nil && ctx.Err() == nil {
		l.abandon(ctx, used)
	}
	return failed, large, err
}

// send gives record i to the producer that can carry it.
func (l *lane) send(ctx context.Context, f *flight, i int, r *synchronizer.Record) (client.Producer, error) {
	small := l.fits(r)
	if !small && l.small != nil {
		// The two producers know nothing of each other: what was sent before must be
		// stored before.
		if err := flush(ctx, l.small); err != nil {
			return l.small, err
		}
	}
	p, err := l.producer(ctx, small)
	if err != nil {
		return nil, err
	}
	cost := int64(min(len(r.Payload)+beside(r)+recordOverhead, inFlight))
	if err := l.q.window.Acquire(ctx, cost); err != nil {
		return p, context.Cause(ctx)
	}
	f.sent(i, cost)
	err = guarded(func() error {
		p.SendAsync(ctx, message(r), func(_ client.MessageID, _ *client.ProducerMessage, err error) { f.answered(i, err) })
		return nil
	})
	if err == nil && !small {
		err = flush(ctx, p)
	}
	return p, err
}

// producer makes one if there is none.
func (l *lane) producer(ctx context.Context, small bool) (client.Producer, error) {
	p := &l.large
	if small {
		p = &l.small
	}
	if *p != nil {
		return *p, nil
	}
	// A producer that has lost its connection is closed, which answers what is open,
	// and replaced: when the library reconnects one by itself, it changes what it is
	// just writing.
	w := newWatched(l.q.ctx)
	options := client.ProducerOptions{
		Topic:              l.topic,
		SendTimeout:        -1, // it goes on sending while the broker is away
		MaxPendingMessages: l.pending(small),
		CompressionType:    client.ZSTD,
		CompressionLevel:   client.Faster,
		BackOffPolicyFunc:  w.policy,

		PartitionsAutoDiscoveryInterval: l.q.config.partitionsNew,
	}
	switch {
	case small && l.shared:
		options.DisableBatching = true
	case small:
		options.BatcherBuilderType = client.KeyBasedBatchBuilder
		options.BatchingMaxPublishDelay, options.BatchingMaxMessages, options.BatchingMaxSize = batchDelay, batchMessages, uint(l.batchLimit())
	default:
		options.DisableBatching, options.EnableChunking = true, true
	}
	made, err := within(ctx, l.q, func() (client.Producer, error) {
		p, err := l.q.write.CreateProducer(options)
		if err != nil {
			return nil, err
		}
		return newSender(p), nil
	}, closeProducer)
	if err != nil {
		w.leave()
		return nil, fmt.Errorf("making producer: %w", err)
	}
	l.q.tasks.Go(func() {
		<-w.ctx.Done()
		closeProducer(made)
		w.leave()
	})
	*p = made
	return made, nil
}

// pending is how many messages may be in flight. The window bounds them already;
// the library must not wait before, least of all for the chunks of one record,
// of which it sends none until there is room for all.
func (l *lane) pending(small bool) int {
	if small {
		return max(l.q.config.pending, mostInFlight)
	}
	smallestChunk := l.maxMessage - l.besideLimit()
	return max(l.q.config.pending, l.q.config.MaxRecord/smallestChunk+2)
}

// abandon gives up producers that failed. Closing them answers whatever other
// calls have open with them, which send it again.
func (l *lane) abandon(ctx context.Context, used []client.Producer) {
	if l.acquire(ctx) != nil {
		return
	}
	defer l.release()
	for _, p := range used {
		switch p {
		case nil:
			continue
		case l.small:
			l.small = nil
		case l.large:
			l.large = nil
		default:
			continue // somebody else has done it
		}
		l.q.tasks.Go(func() { closeProducer(p) })
	}
}

// close ends the producers; nothing is sent any more.
func (l *lane) close() {
	for _, p := range []client.Producer{l.small, l.large} {
		if p != nil {
			closeProducer(p)
		}
	}
}

func closeProducer(p client.Producer) {
	_ = guarded(func() error { p.Close(); return nil })
}

// push sends what a producer has gathered, and waits for the answers.
func (f *flight) push(ctx context.Context, p client.Producer) error {
	if open, _ := f.state(); open == 0 {
		return nil
	}
	pushed, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	if p != nil {
		go func() {
			if err := flush(pushed, p); err != nil {
				failed <- err
				cancel()
			}
		}()
	}
	err := f.wait(pushed)
	if err != nil && ctx.Err() == nil {
		select {
		case err = <-failed:
		default:
		}
	}
	return err
}

func flush(ctx context.Context, p client.Producer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, noAnswerAfter, errNoAnswer)
	defer cancel()
	err := guarded(func() error { return p.FlushWithCtx(ctx) })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

var errProducerGone = errors.New("producer was closed")

// guarded calls a method of a producer. The library closes a producer's channels
// when it gives it up, and panics when another goroutine is about to use them.
func guarded(call func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%w: %v", errProducerGone, reason)
		}
	}()
	return call()
}

func newWindow() *semaphore.Weighted { return semaphore.NewWeighted(inFlight) }
