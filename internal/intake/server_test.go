// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestTimeouts(t *testing.T) {
	e, err := New(Options{Outlet: &fakeOutlet{}, Auth: Auth{Disabled: true}})
	require.NoError(t, err)
	s := e.server(t.Context())
	require.Equal(t, []time.Duration{5 * time.Second, 30 * time.Second, 35 * time.Second, 120 * time.Second},
		[]time.Duration{s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout})
	require.Equal(t, int64(4<<20), e.limits.body)
}

// TestProbes need no token and no started process.
func TestProbes(t *testing.T) {
	started := errors.New("reading the cluster")
	w := open(t, func(o *Options, _ *limits) { o.Ready = func() error { return started } })
	w.outlet.away.Store(true)
	w.api.token = func(string) (string, error) { return "", errAPIServer }
	require.Equal(t, 200, w.do("GET", "/healthz", "", nil).status)
	a := w.do("GET", "/readyz", "", nil)
	require.Equal(t, 503, a.status)
	require.Contains(t, a.text, "reading the cluster")
	started = nil
	require.Equal(t, 200, w.do("GET", "/readyz", "", nil).status)
	require.Equal(t, 200, w.do("GET", "/healthz", "", nil).status)
	require.Equal(t, 400, w.do("GET", "/healthz/x", "", nil).status)
	tokens, _ := w.api.reviews()
	require.Zero(t, tokens)
	w = open(t, noAuth)
	require.Equal(t, 200, w.do("GET", "/readyz", "", nil).status)
}

func TestBusyPort(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	_, err = Listen(t.Context(), l.Addr().String())
	require.ErrorContains(t, err, "httpEndpoint.serverPort")
	require.ErrorContains(t, err, "address already in use")
}

func TestSlowHeader(t *testing.T) {
	w := open(t, func(o *Options, l *limits) {
		noAuth(o, l)
		l.header = 50 * time.Millisecond
	})
	c := w.dial("POST /apis")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(limit)))
	_, err := io.ReadAll(c)
	require.NoError(t, err, "the server ends it")
}

// TestStop: what waits for the outlet ends with the process, and a body that
// does not come delays the end no longer than the grace.
func TestStop(t *testing.T) {
	w := open(t, func(o *Options, l *limits) {
		noAuth(o, l)
		l.grace = 20 * time.Millisecond
	})
	w.outlet.hold.Store(true)
	done := make(chan int, 1)
	go func() {
		a, _ := w.try(http.MethodPost, alertPath, "", strings.NewReader(report("RuntimeAlerts", "a")))
		done <- a.status
	}()
	w.dial(head(alertPath, "Content-Length: 100"))
	w.eventually("both are inside", func() bool {
		total, _ := w.admission.inside()
		return total == 2 && w.outlet.entered.Load() == 1
	})
	require.NoError(t, w.stop())
	require.Equal(t, 503, <-done)
	w.empty()
}

// TestManyConnections: idle ones make room, and there is an end.
func TestManyConnections(t *testing.T) {
	w := open(t, noAuth)
	w.eventually("the listener waits", func() bool { return len(w.connections) == 1 })
	taken := 0
	take := func(n int) {
		for range n {
			w.connections <- struct{}{}
		}
		taken += n
	}
	take(busyConnections)
	require.True(t, w.do("GET", "/healthz", "", nil).close)
	w.eventually("it is closed", func() bool { return len(w.connections) == taken+1 })
	take(maxConnections - taken - 1)
	c := w.dial("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") // has the place that the listener holds
	require.Equal(t, 200, response(t, c).StatusCode)
	_ = c.Close()
	w.eventually("it is closed", func() bool { return len(w.connections) == maxConnections })
	c, late := w.dial("GET"), w.dial("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	w.eventually("one of them is let in", func() bool { return w.read.Load() > 0 && len(w.connections) == maxConnections })
	for range taken {
		<-w.connections
	}
	require.Equal(t, 200, response(t, late).StatusCode)
	_ = c.Close()
}

func TestServeFails(t *testing.T) {
	e, err := New(Options{Outlet: &fakeOutlet{}, Auth: Auth{Disabled: true}})
	require.NoError(t, err)
	l, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorContains(t, e.Serve(t.Context(), l), "serving the HTTP endpoint")
}

func TestMetricsTwice(t *testing.T) {
	reg := prometheus.NewRegistry()
	options := Options{Outlet: &fakeOutlet{}, Auth: Auth{Disabled: true}, Registerer: reg}
	_, err := New(options)
	require.NoError(t, err)
	_, err = New(options)
	require.ErrorContains(t, err, "registering metrics")
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1, "counters appear with their first request")
}
