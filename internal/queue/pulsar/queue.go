// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/backoff"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"synchronizer"
)

const (
	connectTimeout   = 5 * time.Second
	operationTimeout = 10 * time.Second
	// startTimeout bounds what the library does by itself while Open tries.
	startTimeout = 3 * time.Second
	keepAlive    = 15 * time.Second
)

// Queue is one client of a broker. It implements synchronizer.Queue.
type Queue struct {
	config Config
	// Two clients, with a connection each: large batches that are read must not hold
	// up the confirmations of what is written.
	write, read client.Client
	// The library's ways to read. policy is asked when a connection is lost.
	subscribe func(group string, policy func() backoff.Policy) (subscription, error)
	newReader func(topic string, start client.MessageID, policy func() backoff.Policy) (messageReader, error)

	window *semaphore.Weighted
	lanes  map[synchronizer.Direction]*lane

	ctx   context.Context // ends with ErrClosed
	end   context.CancelCauseFunc
	tasks sync.WaitGroup // calls of the library that cannot be cancelled

	mu      sync.Mutex
	closed  bool
	calls   sync.WaitGroup // Publish; Add only under mu and not when closed
	users   sync.WaitGroup // Tail, Consume, acknowledgements; the same
	readers map[io.Closer]struct{}
}

var _ synchronizer.Queue = (*Queue)(nil)

// Open connects to a broker. It tries several times, since the broker may be
// starting as well; errors say what to do, and wrap ErrInvalid for a wrong
// configuration and ErrUnauthorized for refused credentials.
func Open(ctx context.Context, config Config) (*Queue, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("opening queue on Pulsar: %w", err)
	}
	secure, err := config.tls()
	if err != nil {
		return nil, fmt.Errorf("opening queue on Pulsar: %w", err)
	}
	for try := 1; ; try++ {
		maxMessage, err := reach(ctx, &config, secure)
		if err == nil {
			return newQueue(config, secure, maxMessage)
		}
		if ctx.Err() != nil || try >= config.StartRetries {
			return nil, fmt.Errorf("opening queue on Pulsar at %s, %d tries: %w", config.URL, try, err)
		}
		config.Logger.Warn("queue: Pulsar cannot be used yet, trying again", "url", config.URL, "try", try, "of", config.StartRetries, "error", err)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("opening queue on Pulsar at %s: %w (%w)", config.URL, context.Cause(ctx), err)
		case <-time.After(config.StartPause):
		}
	}
}

// reach finds out whether the broker can be used, and how large its messages may be.
func reach(ctx context.Context, config *Config, secure *tls.Config) (maxMessage int, err error) {
	if _, withTLS, err := config.brokers(); err != nil {
		return 0, err
	} else if !withTLS {
		secure = nil
	}
	token, err := config.token()
	if err != nil {
		return 0, err
	}
	if maxMessage, err = anyBroker(ctx, config, secure, token); err != nil {
		return 0, err
	}
	if maxMessage <= 0 {
		maxMessage = defaultMaxMessage
	}
	if config.AdminURL != "" {
		if err := newAdmin(config, secure, token).prepare(ctx, config); err != nil {
			return 0, err
		}
	}
	return maxMessage, topicsUsable(config, secure)
}

// topicsUsable asks for both topics, which fails if the namespace is missing or
// forbidden.
func topicsUsable(config *Config, secure *tls.Config) error {
	c, err := newClient(config, secure, startTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, d := range []synchronizer.Direction{synchronizer.Out, synchronizer.In} {
		if _, err := c.TopicPartitions(config.topic(d)); err != nil {
			return fmt.Errorf("asking for topic %s (does namespace %s/%s exist, and may we use it?): %w", config.topic(d), config.Tenant, config.Namespace, err)
		}
	}
	return nil
}

func newClient(config *Config, secure *tls.Config, timeout time.Duration) (client.Client, error) {
	ended := &atomic.Bool{}
	options := client.ClientOptions{
		URL:                   config.URL,
		ConnectionTimeout:     connectTimeout,
		OperationTimeout:      timeout,
		KeepAliveInterval:     keepAlive,
		TLSConfig:             secure,
		Logger:                libraryLog(config.Logger, ended),
		MetricsRegisterer:     prometheus.NewRegistry(), // ours are counted elsewhere
		MetricsCardinality:    client.MetricsCardinalityNone,
		MemoryLimitBytes:      -1, // the window and the buffers are bounded
		ConnectionMaxIdleTime: -1,
		Description:           "synchronizer",
	}
	switch {
	case config.Token != "" || config.TokenFile != "":
		options.Authentication = client.NewAuthenticationTokenFromSupplier(config.token)
	case config.CertFile != "":
		options.Authentication = client.NewAuthenticationTLS(config.CertFile, config.KeyFile)
	}
	c, err := client.NewClient(options)
	if err != nil {
		return nil, fmt.Errorf("making client: %w", err)
	}
	return quietAfterClose{c, ended}, nil
}

// quietAfterClose is a client that does not write to the log after Close.
type quietAfterClose struct {
	client.Client
	ended *atomic.Bool
}

func (c quietAfterClose) Close() {
	c.ended.Store(true)
	c.Client.Close()
}

func newQueue(config Config, secure *tls.Config, maxMessage int) (*Queue, error) {
	q := &Queue{
		config: config, window: newWindow(), lanes: map[synchronizer.Direction]*lane{},
		readers: map[io.Closer]struct{}{},
	}
	var err error
	if q.write, err = newClient(&config, secure, operationTimeout); err != nil {
		return nil, err
	}
	if q.read, err = newClient(&config, secure, operationTimeout); err != nil {
		q.write.Close()
		return nil, err
	}
	topics := map[string]*lane{} // one lane per topic, or its producers would know nothing of each other
	for _, d := range []synchronizer.Direction{synchronizer.Out, synchronizer.In, synchronizer.DeadLetter} {
		topic := config.topic(d)
		if topics[topic] == nil {
			topics[topic] = newLane(q, topic, maxMessage)
		}
		q.lanes[d] = topics[topic]
	}
	q.subscribe, q.newReader = q.subscribeLibrary, q.readLibrary
	q.ctx, q.end = context.WithCancelCause(context.Background())
	return q, nil
}

// topics are the lanes, each once.
func (q *Queue) topics() map[string]*lane {
	all := map[string]*lane{}
	for _, l := range q.lanes {
		all[l.topic] = l
	}
	return all
}

// partitions are the names of a topic's partitions; of one without any, its own.
func (q *Queue) partitions(ctx context.Context, d synchronizer.Direction) ([]string, error) {
	topic := q.config.topic(d)
	names, err := within(ctx, q, func() ([]string, error) { return q.read.TopicPartitions(topic) }, func([]string) {})
	if err != nil {
		return nil, fmt.Errorf("asking for partitions of %s: %w", topic, err)
	}
	return names, nil
}

func (q *Queue) subscribeLibrary(group string, policy func() backoff.Policy) (subscription, error) {
	never := uint(0)
	return q.read.Subscribe(client.ConsumerOptions{
		Topic:                          q.config.topic(synchronizer.Out),
		SubscriptionName:               group,
		Type:                           client.KeyShared,
		SubscriptionInitialPosition:    client.SubscriptionPositionEarliest,
		ReceiverQueueSize:              fetchAhead,
		AutoDiscoveryPeriod:            math.MaxInt64, // see discover
		AckWithResponse:                true,
		EnableBatchIndexAcknowledgment: true,
		ExpireTimeOfIncompleteChunk:    chunkLife,
		BackOffPolicyFunc:              policy,
		MaxReconnectToBroker:           &never, // or one that we leave would be a member again for a moment
	})
}

func (q *Queue) readLibrary(topic string, start client.MessageID, policy func() backoff.Policy) (messageReader, error) {
	return q.read.CreateReader(client.ReaderOptions{
		Topic:                  topic,
		StartMessageID:         start,
		SubscriptionRolePrefix: "synchronizer-tail",
		ReceiverQueueSize:      tailAhead,
		BackoffPolicyFunc:      policy,

		ExpireTimeOfIncompleteChunk: chunkLife,
	})
}

// join bounds ctx by the life of the queue; context.Cause of the result is
// ErrClosed when the queue ended it.
func (q *Queue) join(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(q.ctx, func() { cancel(context.Cause(q.ctx)) })
	if q.ctx.Err() != nil { // AfterFunc runs on its own goroutine, later
		cancel(context.Cause(q.ctx))
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// enter is join for calls that end when the queue is closed; done must be called.
func (q *Queue) enter(ctx context.Context) (joined context.Context, done func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, nil, synchronizer.ErrClosed
	}
	q.users.Add(1)
	joined, leave := q.join(ctx)
	return joined, func() { leave(); q.users.Done() }, nil
}

// addReader keeps a tail or consumer for Close.
func (q *Queue) addReader(r io.Closer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return synchronizer.ErrClosed
	}
	q.readers[r] = struct{}{}
	return nil
}

func (q *Queue) removeReader(r io.Closer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.readers, r)
}

// Publish implements synchronizer.Queue. While the broker is away, or refuses
// because its quota is used up, it waits and tries again until ctx ends.
func (q *Queue) Publish(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return fmt.Errorf("publishing: %w", synchronizer.ErrClosed)
	}
	q.calls.Add(1)
	q.mu.Unlock()
	defer q.calls.Done()

	l := q.lanes[to]
	if l == nil {
		return fmt.Errorf("%w: publishing to direction %s", synchronizer.ErrInvalid, to)
	}
	ctx, done := q.join(ctx)
	defer done()
	return l.publish(ctx, records)
}

// Close implements synchronizer.Queue: it waits for running calls of Publish
// until ctx ends, then ends everything.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	q.mu.Unlock()

	flushed := make(chan struct{})
	go func() {
		q.calls.Wait()
		close(flushed)
	}()
	var err error
	select {
	case <-flushed:
	case <-ctx.Done():
		err = fmt.Errorf("flushing the queue: %w", ctx.Err())
	}
	q.end(synchronizer.ErrClosed)
	<-flushed
	q.users.Wait()

	q.mu.Lock()
	readers := make([]io.Closer, 0, len(q.readers))
	for r := range q.readers {
		readers = append(readers, r)
	}
	q.mu.Unlock()
	var ends sync.WaitGroup
	for _, r := range readers {
		ends.Go(func() { _ = r.Close() })
	}
	for _, l := range q.topics() {
		ends.Go(l.close)
	}
	ends.Wait()
	// Ends the connections, so that what still waits for an answer gives up.
	q.write.Close()
	q.read.Close()
	q.tasks.Wait()
	return err
}
