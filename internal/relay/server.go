// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
	"synchronizer/internal/link"
	"synchronizer/internal/queue"
)

// Close codes of RFC 6455 that a server gives.
const (
	statusGoingAway     = 1001
	statusTryAgainLater = 1013
	statusReplaced      = 4001 // ours: a newer connection of the cluster has come
)

const (
	// publishTimeout is how long the queue may refuse before links are closed.
	publishTimeout = 20 * time.Second
	// flushTimeout bounds the publishing of what a client sent before it left.
	flushTimeout = 10 * time.Second
	// farewellTimeout bounds the writing of what clients were going to be told when
	// the server stops.
	farewellTimeout = 5 * time.Second
	// retryAfter is what a client is told that cannot be let in just now.
	retryAfter = 5 * time.Second
	// ingesterSilence is how long an announcement of an ingester counts; they come
	// every 10 s.
	ingesterSilence = 30 * time.Second
)

// Options are what a Server needs; all fields but Now must be set.
type Options struct {
	Queue         synchronizer.Queue
	QueueName     string // for metrics: embedded, kafka, …
	Encoding      queue.Encoding
	Authenticator Authenticator
	Link          link.Options
	ServerName    string // said in ConnectedClients
	// UpwardBytes bounds what is read from one client and not yet confirmed by the
	// queue; BacklogBytes what waits for one client that does not read.
	UpwardBytes, BacklogBytes int
	// ReconcileAfter is how long after a connection was accepted its cluster is
	// reconciled, with up to a fifth of it added; 0 or less, or too large for that: not
	// at all.
	ReconcileAfter time.Duration
	// Periodic is when clients are asked to reconcile regularly.
	Periodic Periodic
	// KeepAlive is how often it is published who is connected, beside at each
	// connect; 0 or less: not at all.
	KeepAlive time.Duration
	// SkipAlertsFrom are accounts whose runtime alerts are dropped; Features says
	// which others' are, nil: none.
	SkipAlertsFrom []string
	Features       *Features
	// Workers is how many handle what is read from the queue, each for clusters of its
	// own; with Replay it is one.
	Workers int
	// Replay keeps what is for clients that are not connected; nil: off.
	Replay *ReplayLimits
	// MaxObjectSize is the largest body that is carried to the backend, in bytes;
	// 0: as large as a frame may be.
	MaxObjectSize int64

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Drop       synchronizer.DropFunc
	Now        func() time.Time // default time.Now
}

// Server is the http.Handler that clients connect to.
type Server struct {
	options  Options
	encoder  queue.Encoder
	registry *registry
	debts    debts
	away     away
	metrics  *metrics
	replay   *replay // nil: off
	// skipAlerts is SkipAlertsFrom as a set.
	skipAlerts map[string]struct{}
	draining   context.Context
	drain      context.CancelFunc
	started    chan struct{} // closed when In is tailed: answers can be delivered
	// ingesterSeen is when an ingester of this project last announced itself, by
	// elapsed; 0: never.
	ingesterSeen atomic.Int64
	// elapsed is a monotonic clock that began before anything happened; Now may be
	// set meanwhile.
	elapsed func() time.Duration

	publishTimeout, flushTimeout, farewellTimeout time.Duration

	mu      sync.Mutex
	drained bool
	open    sync.WaitGroup // connections; Add only under mu and not when drained
}

// New makes a server; Run must be called for it to serve.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if after, ok := withRoom(o.ReconcileAfter); !ok {
		o.Logger.Warn("the delay of the reconciliation after a connect is too large for its jitter: ignored", "delay", o.ReconcileAfter)
		o.ReconcileAfter = after
	}
	began := time.Now()
	s := &Server{
		options:  o,
		encoder:  queue.Encoder{Encoding: o.Encoding, Producer: queue.Server, Now: o.Now},
		registry: newRegistry(),
		started:  make(chan struct{}),

		skipAlerts: accounts(o.SkipAlertsFrom),
		elapsed:    func() time.Duration { return time.Since(began) + 1 },

		publishTimeout: publishTimeout, flushTimeout: flushTimeout, farewellTimeout: farewellTimeout,
	}
	s.draining, s.drain = context.WithCancel(context.Background())
	s.metrics = newMetrics(o.Registerer, s.registry.count)
	if o.Replay != nil {
		s.replay = newReplay(s, *o.Replay)
		s.replay.register(o.Registerer)
	}
	return s
}

// Run tails In until ctx ends, then closes all links (1001) and waits for them.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	t, err := s.options.Queue.Tail(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("subscribing to the queue: %w", err)
	}
	close(s.started)
	if s.replay != nil {
		var sweeping sync.WaitGroup
		defer sweeping.Wait()
		sweepCtx, stop := context.WithCancel(ctx)
		defer stop()
		sweeping.Go(func() { s.replay.sweep(sweepCtx) })
	}
	defer s.startTasks(ctx)()
	if r, ok := s.options.Authenticator.(Rechecker); ok {
		var checking sync.WaitGroup
		defer checking.Wait()
		checkCtx, stop := context.WithCancel(ctx)
		defer stop()
		checking.Go(func() { s.recheckAll(checkCtx, r) })
	}
	err = s.tail(ctx, t)
	_ = t.Close() // there is nothing to save: a tail keeps no position
	return err
}

// close ends all connections and waits for them.
func (s *Server) close() {
	s.mu.Lock()
	s.drained = true
	s.mu.Unlock()
	if s.replay != nil {
		s.replay.close()
	}
	s.drain()
	s.open.Wait()
	s.options.Features.wait()
}

// enter counts a connection that begins, unless the server has stopped.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.drained {
		s.open.Add(1)
	}
	return !s.drained
}

// Ready is nil once the server delivers in both directions.
func (s *Server) Ready() error {
	select {
	case <-s.started:
		return nil
	default:
		return errors.New("not yet subscribed to the queue")
	}
}

// Clients is the number of clusters with a client that is connected here.
func (s *Server) Clients() int { return s.registry.count() }

// IngesterPresent reports whether an ingester of this project has announced
// itself lately: it understands more than one of the field.
func (s *Server) IngesterPresent() bool {
	seen := time.Duration(s.ingesterSeen.Load())
	return seen != 0 && s.elapsed()-seen < ingesterSilence
}

// ServeHTTP accepts a client on any path. Refusals come in the order missing
// header (401), version (424), key (401); what cannot be decided now is 503.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hello, accessKey, err := link.ParseHello(r, link.ExtraHeaders{})
	if err != nil {
		s.refuse(w, hello, err)
		return
	}
	claim := Claim{ClusterID: hello.ClusterID, AccessKey: accessKey, Header: r.Header}
	if err := s.options.Authenticator.Authenticate(r.Context(), claim); err != nil {
		s.refuse(w, hello, err)
		return
	}
	if err := s.Ready(); err != nil {
		s.refuse(w, hello, err)
		return
	}
	if !s.enter() {
		s.refuse(w, hello, errors.New("server is shutting down"))
		return
	}
	c := &connection{server: s, hello: hello, key: synchronizer.HashSecret(accessKey), source: uuid.NewString(), since: s.options.Now(), opened: time.Now()}
	c.ctx, c.end = context.WithCancel(context.WithoutCancel(s.draining))
	finish := func() {
		c.end()
		s.open.Done()
	}
	serve := s.admit(w, r, c, claim)
	if serve == nil {
		finish()
		return
	}
	// Not in the goroutine of the request: what net/http keeps for that, and its deep
	// stack, would be kept for as long as the client is connected.
	go serve(finish)
}

// admit introduces a client that may connect and upgrades its request; nil if it
// was answered otherwise. What is returned must be called: it serves the connection,
// calls done behind its end, and keeps nothing of the request.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, c *connection, claim Claim) (serve func(done func())) {
	c.up = newPump(s.options.UpwardBytes, c.publish)
	c.down = newPump(s.options.BacklogBytes, c.send)
	// Before a frame of the connection is read, the backend knows its source: that
	// gives it its generation, in the order of connections. A request that is no
	// upgrade becomes no connection; Accept refuses it.
	leave := func() {}
	if isUpgrade(r) {
		var err error
		if leave, err = s.registry.enter(r.Context(), c.id()); err != nil {
			s.refuse(w, c.hello, err)
			return nil
		}
		if err := s.introduce(r.Context(), c); err != nil {
			leave()
			s.refuse(w, c.hello, err)
			return nil
		}
	}
	accept := s.options.Link
	accept.Hello = c.hello
	var err error
	if c.link, err = link.Accept(w, r, accept); err != nil {
		leave()
		s.options.Logger.Warn("upgrading connection", "account", c.id().Account, "cluster", c.id().Cluster, "error", err)
		return nil // Accept has answered
	}
	closeGates := c.openGates(claim)
	older, replacements := s.registry.add(c, c.opened)
	leave()
	return func(done func()) {
		s.serve(c, older, replacements, func() {
			closeGates()
			done()
		})
	}
}

// isUpgrade is false only for requests that link.Accept refuses.
func isUpgrade(r *http.Request) bool {
	return strings.Contains(strings.ToLower(strings.Join(r.Header.Values("Upgrade"), ",")), "websocket")
}

// refuse answers with the status that err asks for and logs the reason. What
// cannot be decided now is 503, and its details stay in the log.
func (s *Server) refuse(w http.ResponseWriter, hello synchronizer.Hello, err error) {
	s.options.Logger.Warn("client refused", "account", shortened(hello.Account), "cluster", shortened(hello.Cluster), "reason", err)
	final := errors.Is(err, synchronizer.ErrUnauthorized) || errors.Is(err, synchronizer.ErrUnsupportedVersion) || errors.Is(err, synchronizer.ErrInvalid)
	if !final {
		err = &synchronizer.RetryAfterError{After: retryAfter, Err: errors.New("not available now")}
	}
	s.metrics.refused.Inc()
	link.Refuse(w, err)
}

// shortened bounds what somebody who was not let in writes into the log.
func shortened(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// introduce publishes ServerConnected and waits for the confirmation.
func (s *Server) introduce(ctx context.Context, c *connection) error {
	done, err := s.away.enter()
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, s.publishTimeout)
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	m := synchronizer.Message{
		Event: synchronizer.EventServerConnected, MsgID: uuid.NewString(),
		ClusterID: c.id(), Stamp: synchronizer.Stamp{Source: c.source},
	}
	r, err := s.encode(&m)
	if err != nil {
		return err
	}
	return s.publish(ctx, []synchronizer.Record{r})
}

// announce publishes who has connected, before what the client sends.
func (s *Server) announce(ctx context.Context, c *connection) error {
	m := synchronizer.Message{
		Event: synchronizer.EventConnectedClients, MsgID: uuid.NewString(), ClusterID: c.id(),
		Clients: &synchronizer.ConnectedClients{
			ServerName: s.options.ServerName,
			Clients:    []synchronizer.ConnectedClient{c.describe()},
			KeepAlive:  s.options.Now(),
		},
	}
	r, err := s.encode(&m)
	if err != nil {
		return err
	}
	return c.up.put(ctx, r, r.Size())
}

func (s *Server) encode(m *synchronizer.Message) (synchronizer.Record, error) {
	r, err := s.encoder.Encode(m, queue.Extra{Link: "v1"})
	if err != nil {
		return r, fmt.Errorf("encoding %s: %w", m.Event, err)
	}
	return r, nil
}

// publish sends records to Out and counts them.
func (s *Server) publish(ctx context.Context, records []synchronizer.Record) error {
	err := s.options.Queue.Publish(ctx, synchronizer.Out, records)
	s.away.learn(ctx, err)
	if err == nil {
		s.metrics.countProduced(s.options.QueueName, "success", records)
		return nil
	}
	refused := records
	if errors.Is(err, synchronizer.ErrTooLarge) {
		var taken []synchronizer.Record
		at := tooLarge(records, err)
		refused = nil
		for i := range records {
			if slices.Contains(at, i) {
				refused = append(refused, records[i])
			} else {
				taken = append(taken, records[i])
			}
		}
		s.metrics.countProduced(s.options.QueueName, "success", taken)
	}
	s.metrics.countProduced(s.options.QueueName, "error", refused)
	return fmt.Errorf("publishing to the queue: %w", err)
}
