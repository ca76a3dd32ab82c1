// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link"
	"synchronizer/internal/link/linktest"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/nats"
)

const limit = time.Minute

// fixture is a server on a real listener, with a queue behind it.
type fixture struct {
	*Server
	t     *testing.T
	url   string
	queue synchronizer.Queue
	reg   *prometheus.Registry
	drops linktest.Drops
	log   logs

	stop    func() // ends Run and waits for it
	records chan synchronizer.Record
}

type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// newFixture starts a server; change may alter it before it runs. Without a
// queue in the options it has an embedded one, whose Out is read into records.
func newFixture(t *testing.T, o Options, change func(*Server)) *fixture {
	t.Helper()
	f := &fixture{t: t, reg: prometheus.NewRegistry(), records: make(chan synchronizer.Record, 10_000)}
	o.Logger = slog.New(slog.NewTextHandler(&f.log, nil))
	if o.Queue == nil {
		f.queue = openQueue(t)
		o.Queue = f.queue
		f.consume()
	}
	o.QueueName, o.ServerName, o.Registerer, o.Drop = "embedded", "server-1", f.reg, f.drops.Drop
	o.Link.Drop = f.drops.Drop
	if o.Encoding == 0 {
		o.Encoding = queue.Compact
	}
	if o.Authenticator == nil {
		o.Authenticator = Anonymous{}
	}
	if o.UpwardBytes == 0 {
		o.UpwardBytes = 1 << 20
	}
	if o.BacklogBytes == 0 {
		o.BacklogBytes = 1 << 20
	}
	f.Server = New(o)
	if change != nil {
		change(f.Server)
	}
	listener := httptest.NewServer(f.Server)
	f.url = listener.URL
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(limit):
			require.Fail(t, "the server does not stop")
		}
	})
	t.Cleanup(listener.Close)
	t.Cleanup(f.stop)
	require.Eventually(t, func() bool { return f.Ready() == nil }, limit, time.Millisecond)
	return f
}

func openQueue(t *testing.T) synchronizer.Queue {
	t.Helper()
	q, err := nats.OpenEmbedded(t.Context(), nats.EmbeddedConfig{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
		defer cancel()
		require.NoError(t, q.Close(ctx))
	})
	return q
}

// consume reads Out until the queue is closed.
func (f *fixture) consume() {
	consumer, err := f.queue.Consume(f.t.Context(), "test")
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			b, err := consumer.Next(ctx, 500, 1<<20)
			if err != nil {
				return
			}
			for _, r := range b.Records {
				f.records <- r
			}
		}
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
		require.NoError(f.t, consumer.Close())
	})
}

// record waits for the next record on Out.
func (f *fixture) record() synchronizer.Record {
	f.t.Helper()
	select {
	case r := <-f.records:
		return r
	case <-time.After(limit):
		require.FailNow(f.t, "no record", "log:\n%s", f.log.String())
		panic("unreachable")
	}
}

// object waits for the next record about an object.
func (f *fixture) object() synchronizer.Record {
	f.t.Helper()
	for {
		if r := f.record(); synchronizer.ParseEvent(r.Property(queue.PropertyEvent)).AboutObject() {
			return r
		}
	}
}

// down publishes messages as a backend.
func (f *fixture) down(msgs ...synchronizer.Message) {
	f.t.Helper()
	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	records := make([]synchronizer.Record, len(msgs))
	for i := range msgs {
		var err error
		records[i], err = e.Encode(&msgs[i], queue.Extra{})
		require.NoError(f.t, err)
	}
	require.NoError(f.t, f.queue.Publish(f.t.Context(), synchronizer.In, records))
}

// counter is the value of a metric with the given labels.
func (f *fixture) produced(status, event string) float64 {
	families, err := f.reg.Gather()
	require.NoError(f.t, err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() != "synchronizer_mq_producer_messages_produced_count" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["status"] == status && labels["event_type"] == event {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func (f *fixture) delivered() float64 {
	return testutil.ToFloat64(f.metrics.downward.WithLabelValues("accepted"))
}

// client is a bare WebSocket, for frames that no peer of ours would send.
type client struct {
	t  *testing.T
	ws *websocket.Conn
}

func headerOf(account, cluster string) http.Header {
	return http.Header{
		"X-Api-Key": {"key"}, "X-Api-Account": {account}, "X-Api-Cluster": {cluster}, "X-Synchronizer-Version": {"v0.0.140"},
	}
}

// connect makes a bare connection and sends a Ping, after which the server may write.
func (f *fixture) connect(account, cluster string) *client {
	f.t.Helper()
	c := f.dial(account, cluster)
	c.send(`{"Depth":0,"Event":7,"Kind":null,"MsgId":"p","AdditionalProperties":null}`)
	return c
}

// dial makes a bare connection that has said nothing yet.
func (f *fixture) dial(account, cluster string) *client {
	f.t.Helper()
	// What the network holds for a client that does not read must not grow.
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(1 << 20)
		}
		return conn, err
	}}
	defer transport.CloseIdleConnections()
	ws, _, err := websocket.Dial(f.t.Context(), f.url, &websocket.DialOptions{
		HTTPHeader: headerOf(account, cluster), HTTPClient: &http.Client{Transport: transport},
	})
	require.NoError(f.t, err)
	ws.SetReadLimit(-1)
	f.t.Cleanup(func() { _ = ws.CloseNow() }) // it may have ended
	return &client{t: f.t, ws: ws}
}

func (c *client) send(frame string) {
	c.t.Helper()
	require.NoError(c.t, c.ws.Write(c.t.Context(), websocket.MessageBinary, []byte(frame)))
}

// next reads one frame as generic JSON, with its error.
func (c *client) next() (map[string]any, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	_, raw, err := c.ws.Read(ctx)
	if err != nil {
		return nil, err
	}
	var frame map[string]any
	require.NoError(c.t, json.Unmarshal(raw, &frame))
	return frame, nil
}

// ended waits for the end and returns its close code.
func (c *client) ended() websocket.StatusCode {
	c.t.Helper()
	for {
		if _, err := c.next(); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// named is a NewChecksum about configmap demo/<name>.
func named(name string) string {
	return `{"Depth":1,"Event":0,"Kind":{"Group":"","Version":"v1","Resource":"configmaps","AdditionalProperties":null},"MsgId":"m-` + name +
		`","Name":"` + name + `","Namespace":"demo","ResourceVersion":0,"Checksum":"c","AdditionalProperties":null}`
}

var configMaps = synchronizer.Kind{Version: "v1", Resource: "configmaps"}

// ask is a GetObject of the backend.
func ask(account, cluster, name string) synchronizer.Message {
	return synchronizer.Message{
		Event: synchronizer.EventGet, Depth: 2, MsgID: "get-" + name, Kind: configMaps, Namespace: "demo", Name: name,
		ClusterID: synchronizer.ClusterID{Account: account, Cluster: cluster},
	}
}

func linkOptions(maxMessage int) link.Options {
	return link.Options{Limits: link.Limits{MaxMessageBytes: maxMessage}}
}
