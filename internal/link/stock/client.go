// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"synchronizer"
)

// ClientOptions say who a client is and what its cluster holds.
type ClientOptions struct {
	Account, Cluster, AccessKey string // default "account", "cluster", "key"
	Version                     string // default v0.0.140
	Kinds                       map[synchronizer.Kind]Strategy
	Objects                     []Object      // exist before it starts
	PingInterval                time.Duration // default 50 s
	// HoldReading makes it not read until Resume, as a client in the field does for up to
	// 90 s after a reconnect.
	HoldReading bool
	HTTPClient  *http.Client // for TLS; its Transport must be an *http.Transport
}

// Client is a client in the field.
type Client struct {
	*session
	gate    chan struct{}
	open    sync.Once
	conn    net.Conn
	stop    chan struct{}
	running sync.WaitGroup

	cluster sync.Mutex // guards what follows
	state   *Cluster
	sent    []Frame
}

// Connect starts a client: it connects, sends a Ping and then reports what
// exists. It ends with the test, which fails if the upgrade does.
func Connect(t testing.TB, url string, opts ClientOptions) *Client {
	t.Helper()
	c, response, err := TryConnect(t, url, opts)
	if response != nil {
		require.NoError(t, err, "HTTP status %d", response.StatusCode)
	}
	require.NoError(t, err)
	return c
}

// TryConnect is Connect for an upgrade that may be refused.
func TryConnect(t testing.TB, url string, opts ClientOptions) (*Client, *http.Response, error) {
	header := http.Header{}
	for name, value := range map[string][2]string{
		"X-API-ACCOUNT": {opts.Account, "account"}, "X-API-CLUSTER": {opts.Cluster, "cluster"}, "X-API-KEY": {opts.AccessKey, "key"},
		"X-SYNCHRONIZER-VERSION": {opts.Version, "v0.0.140"}, "X-HELM-VERSION": {}, "X-GIT-VERSION": {}, "X-CLOUD-PROVIDER": {},
	} {
		if value[0] == "" {
			value[0] = value[1]
		}
		header.Set(name, value[0])
	}
	c := &Client{session: newSession(t), gate: make(chan struct{}), stop: make(chan struct{}), state: NewCluster(opts.Kinds)}
	transport := &http.Transport{}
	if opts.HTTPClient != nil {
		transport = opts.HTTPClient.Transport.(*http.Transport).Clone()
	}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := (&net.Dialer{}).DialContext(ctx, network, address)
		c.conn = inner
		return &discarding{Conn: inner}, err
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ws, response, err := websocket.Dial(ctx, url, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, HTTPHeader: header, OnPingReceived: c.onPing,
	})
	if err != nil {
		return nil, response, err
	}
	c.ws = ws
	for _, o := range opts.Objects {
		c.state.Set(o)
	}
	t.Cleanup(c.Close)
	c.do(func(state *Cluster) []Frame { return state.Start() })
	if !opts.HoldReading {
		c.Resume()
	}
	interval := opts.PingInterval
	if interval == 0 {
		interval = 50 * time.Second
	}
	c.running.Go(func() { c.keepPinging(interval) })
	go c.read(c.gate, func(f Frame) {
		c.do(func(state *Cluster) []Frame { return state.Answer(f.Raw) })
	})
	return c, response, nil
}

// do changes the state, and sends what follows from it in its order.
func (c *Client) do(change func(*Cluster) []Frame) {
	c.cluster.Lock()
	defer c.cluster.Unlock()
	for _, f := range change(c.state) {
		if f.Raw == nil {
			f.Raw = f.encode()
		}
		c.sent = append(c.sent, f)
		if c.session.Send(f.Raw) != nil {
			return // the connection has ended, which Done tells
		}
	}
}

// Set creates or changes an object in the cluster.
func (c *Client) Set(o Object) { c.do(func(state *Cluster) []Frame { return state.Set(o) }) }

// Delete removes an object from the cluster.
func (c *Client) Delete(kind synchronizer.Kind, namespace, name string) {
	c.do(func(state *Cluster) []Frame { return state.Delete(kind, namespace, name) })
}

// Sent is every frame that the client made, without pings and those of Send.
func (c *Client) Sent() []Frame {
	c.cluster.Lock()
	defer c.cluster.Unlock()
	return append([]Frame(nil), c.sent...)
}

// JSON is the object as the cluster has it now; "" if it does not exist.
func (c *Client) JSON(kind synchronizer.Kind, namespace, name string) string {
	c.cluster.Lock()
	defer c.cluster.Unlock()
	if o := c.state.objects[key{kind, namespace, name}]; o != nil {
		return o.JSON
	}
	return ""
}

// Resume ends HoldReading.
func (c *Client) Resume() { c.open.Do(func() { close(c.gate) }) }

// Cut ends the network connection without any farewell.
func (c *Client) Cut() {
	_ = c.conn.Close() // it may have ended already
	c.Close()
}

// Close ends the client with status 1000.
func (c *Client) Close() {
	c.Resume()
	c.session.Close()
	c.cluster.Lock()
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	c.cluster.Unlock()
	c.running.Wait()
}

func (c *Client) keepPinging(interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-ticker.C:
			c.do(func(state *Cluster) []Frame {
				ping := Ping
				return []Frame{{Event: &ping, MsgId: state.NewID()}}
			})
		}
	}
}

// discarding loses the bytes that come together with the end of the answer to
// the upgrade, as clients in the field do.
type discarding struct {
	net.Conn
	upgraded bool
	seen     []byte
}

func (d *discarding) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if d.upgraded {
		return n, err
	}
	before := len(d.seen)
	d.seen = append(d.seen, p[:n]...)
	if end := bytes.Index(d.seen, []byte("\r\n\r\n")); end >= 0 {
		d.upgraded = true
		n = end + 4 - before
	}
	return n, err
}
