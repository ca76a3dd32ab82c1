// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link"
	"synchronizer/internal/queue"
)

// asked counts how often somebody was authenticated.
type asked struct {
	err   error
	count atomic.Int32
}

func (a *asked) Authenticate(context.Context, Claim) error {
	a.count.Add(1)
	return a.err
}

// TestHandshakeRefusals: missing header, version, key, and only then whether the
// server can serve.
func TestHandshakeRefusals(t *testing.T) {
	refuses := &asked{err: errors.Join(synchronizer.ErrUnauthorized)}
	away := &asked{err: errors.New("secret detail: database is locked")}
	agrees := &asked{}
	for name, test := range map[string]struct {
		change func(http.Header)
		auth   *asked
		status int
		asks   int32
		body   string
	}{
		"no key":              {change: func(h http.Header) { h.Del("X-API-KEY") }, auth: refuses, status: 401, body: "X-API-KEY"},
		"no account":          {change: func(h http.Header) { h.Del("X-API-ACCOUNT") }, auth: refuses, status: 401, body: "X-API-ACCOUNT"},
		"no cluster":          {change: func(h http.Header) { h.Del("X-API-CLUSTER") }, auth: refuses, status: 401, body: "X-API-CLUSTER"},
		"no key, bad version": {change: func(h http.Header) { h.Del("X-API-KEY"); h.Set("X-SYNCHRONIZER-VERSION", "invalid") }, auth: refuses, status: 401},
		"bad version":         {change: func(h http.Header) { h.Set("X-SYNCHRONIZER-VERSION", "invalid") }, auth: refuses, status: 424},
		"bad account":         {change: func(h http.Header) { h.Set("X-API-ACCOUNT", "a/b") }, auth: refuses, status: 400},
		"account not UTF-8":   {change: func(h http.Header) { h["X-Api-Account"] = []string{"a\xff"} }, auth: agrees, status: 400, asks: 1},
		"bad key":             {auth: refuses, status: 401, asks: 1},
		"nobody can decide":   {auth: away, status: 503, asks: 1, body: "not available now"},
		"plain GET":           {change: func(h http.Header) { h.Del("Upgrade"); h.Del("Connection") }, auth: agrees, status: 400, asks: 1, body: `handshake error: bad "Upgrade" header`},
		"plain GET, bad key":  {change: func(h http.Header) { h.Del("Upgrade"); h.Del("Connection") }, auth: refuses, status: 401, asks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			test.auth.count.Store(0)
			fake := newFakeQueue()
			f := newFixture(t, Options{Queue: fake, Authenticator: test.auth}, nil)
			response, body := f.upgrade(test.change)
			require.Equal(t, test.status, response.StatusCode, body)
			require.Contains(t, body, test.body)
			require.NotContains(t, body, "secret detail")
			require.Equal(t, test.asks, test.auth.count.Load())
			require.Equal(t, test.status == 503, response.Header.Get("Retry-After") != "")
			require.Empty(t, fake.published(), "a refused client is never announced")
		})
	}
}

// upgrade asks for a WebSocket by hand.
func (f *fixture) upgrade(change func(http.Header)) (*http.Response, string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.url+"/any/path", nil)
	require.NoError(f.t, err)
	r.Header = headerOf("a", "c")
	for name, value := range map[string]string{
		"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		r.Header.Set(name, value)
	}
	if change != nil {
		change(r.Header)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(r)
	require.NoError(f.t, err)
	defer response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols {
		return response, ""
	}
	body, err := io.ReadAll(response.Body)
	require.NoError(f.t, err)
	return response, string(body)
}

// TestRefusalIsShort, however much a stranger says of itself.
func TestRefusalIsShort(t *testing.T) {
	f := newFixture(t, Options{Queue: newFakeQueue(), Authenticator: &asked{err: synchronizer.ErrUnauthorized}}, nil)
	for name, status := range map[string]int{"X-API-ACCOUNT": 400, "X-API-CLUSTER": 400, "X-API-KEY": 401, "X-SYNCHRONIZER-VERSION": 401} {
		before := len(f.log.String())
		response, body := f.upgrade(func(h http.Header) { h.Set(name, strings.Repeat("é", 20<<10)) })
		require.Equal(t, status, response.StatusCode, name)
		require.Less(t, len(body), 500, name)
		line := f.log.String()[before:]
		require.Contains(t, line, "client refused", name)
		require.Less(t, len(line), 500, name)
	}
}

// TestHandshakeBeforeTheQueue: a server that has not subscribed yet lets nobody
// in, and one that has stopped neither.
func TestHandshakeBeforeTheQueue(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake}, nil)
	unready := New(Options{Queue: fake, Authenticator: Anonymous{}, Logger: f.options.Logger, Registerer: prometheus.NewRegistry(), Drop: f.drops.Drop})
	require.ErrorContains(t, unready.Ready(), "not yet subscribed")
	serving := f.Server
	f.stop()
	response, _ := f.upgrade(nil)
	require.Equal(t, 503, response.StatusCode)
	require.Equal(t, "5", response.Header.Get("Retry-After"))
	require.Contains(t, f.log.String(), "shutting down")
	require.NotNil(t, serving)
	require.Empty(t, fake.published())
}

// TestHandshakeFirstRecords: ServerConnected is confirmed before the upgrade and
// stands before everything else of its connection, then who has connected.
func TestHandshakeFirstRecords(t *testing.T) {
	f := newFixture(t, Options{}, nil)
	d := &link.Dialer{URL: f.url, AccessKey: "key", Hello: synchronizer.Hello{
		ClusterID: synchronizer.ClusterID{Account: "a", Cluster: "c"}, SynchronizerVersion: "v1.2.3", HelmVersion: "h", GitVersion: "g", CloudProvider: "p",
	}}
	l, err := d.Dial(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close(1000, "")) }()
	require.NoError(t, l.Send(t.Context(), synchronizer.Message{Event: synchronizer.EventDelete, Depth: 1, MsgID: "m", Kind: configMaps, Name: "x"}))

	first, second, third := f.record(), f.record(), f.record()
	require.Equal(t, "ServerConnected", first.Property("event"))
	source := first.Property(queue.PropertySource)
	require.NotEmpty(t, source)
	require.Empty(t, first.Property(queue.PropertySeq))
	require.Equal(t, "a/c", first.Key)

	m, err := queue.Decode(&second)
	require.NoError(t, err)
	require.Equal(t, synchronizer.EventConnectedClients, m.Event)
	require.Equal(t, "server-1", m.Clients.ServerName)
	require.Len(t, m.Clients.Clients, 1)
	require.Equal(t, source, m.Clients.Clients[0].ConnectionID)
	require.Equal(t, d.Hello, m.Clients.Clients[0].Hello)
	require.WithinDuration(t, time.Now(), m.Clients.Clients[0].ConnectionTime, time.Minute)

	require.Equal(t, "DeleteObject", third.Property("event"))
	require.Equal(t, source, third.Property(queue.PropertySource))
	require.Equal(t, "1", third.Property(queue.PropertySeq))
	for _, r := range []synchronizer.Record{first, second, third} {
		require.True(t, queue.FromServer(&r))
	}
}
