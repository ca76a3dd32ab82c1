// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every drop is counted; a flood is not a flood of log lines, and the line after
// it says how many are missing.
func TestDropsAreCountedAndNamed(t *testing.T) {
	var out bytes.Buffer
	d := NewDrops(prometheus.NewRegistry(), NewLogger(&out, "info", ""))
	now := time.Unix(0, 0)
	d.now = func() time.Time { return now }
	for range 1000 {
		d.Drop(synchronizer.DropTooLarge, "apps/v1/deployments default/web")
	}
	require.Equal(t, 1000.0, testutil.ToFloat64(d.counter.WithLabelValues("too_large")))
	require.Equal(t, map[synchronizer.DropReason]int64{synchronizer.DropTooLarge: 1000}, d.Counts())
	require.Equal(t, dropWindowLines, strings.Count(out.String(), "default/web"))

	now = now.Add(dropWindowLength)
	d.Drop(synchronizer.DropTooLarge, "apps/v1/deployments default/web")
	require.Contains(t, out.String(), "notLogged=990")
}

func TestEveryReasonIsExplained(t *testing.T) {
	seen := map[synchronizer.DropReason]bool{}
	for _, r := range synchronizer.DropReasons {
		require.NotEmpty(t, r.Means, r.Reason)
		require.NotEmpty(t, r.Where, r.Reason)
		require.False(t, seen[r.Reason], "%s stands twice", r.Reason)
		seen[r.Reason] = true
	}
}

func TestHealthRoutes(t *testing.T) {
	ready := errors.New("database is away")
	reg := NewRegistry()
	NewDrops(reg, NewLogger(io.Discard, "", ""))
	h := Health{Registry: reg, Ready: func() error { return ready }, Status: func() any { return map[string]int{"kinds": 3} }}.Handler()

	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	code, _ := get("/healthz")
	require.Equal(t, 200, code)
	code, text := get("/readyz")
	require.Equal(t, 503, code)
	require.Contains(t, text, "database is away")
	ready = nil
	code, _ = get("/readyz")
	require.Equal(t, 200, code)
	_, text = get("/metrics")
	require.Contains(t, text, `synchronizer_drops_total{reason="too_large"} 0`)
	_, text = get("/status")
	require.JSONEq(t, `{"kinds": 3}`, text)
}

func TestListenNamesTheKeyOfABusyPort(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", "backend.listen")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	_, err = Listen(t.Context(), l.Addr().String(), "backend.listen")
	require.ErrorContains(t, err, "backend.listen")
	require.ErrorContains(t, err, "address already in use")
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", "api.listen")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, http.NotFoundHandler(), time.Second) }()
	resp, err := http.Get("http://" + l.Addr().String())
	require.NoError(t, err)
	_ = resp.Body.Close()
	cancel()
	require.NoError(t, <-done)
	http.DefaultClient.CloseIdleConnections()
}

// TestPortsForPeopleAreBounded: who asks and does not read, sends a body that does not
// end, or headers without end, loses the connection; the next request of a connection
// has its own time.
func TestPortsForPeopleAreBounded(t *testing.T) {
	defer func(before time.Duration) { probeLimit = before }(probeLimit)
	probeLimit = 300 * time.Millisecond
	reg := NewRegistry()
	large := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "large"}, []string{"text"})
	reg.MustRegister(large)
	for i := range 200 {
		large.WithLabelValues(strings.Repeat("x", 200<<10) + strconv.Itoa(i)) // more than the network holds
	}
	for name, h := range map[string]http.Handler{
		"health": Health{Registry: reg, Ready: func() error { return nil }}.Handler(), "metrics": MetricsHandler(reg),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Listen(t.Context(), "127.0.0.1:0", "")
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			srv := newServer(h)
			var came, open atomic.Int64
			srv.ConnState = func(_ net.Conn, s http.ConnState) {
				switch s {
				case http.StateNew:
					open.Add(1)
					came.Add(1)
				case http.StateClosed:
					open.Add(-1)
				}
			}
			go func() { done <- serve(ctx, srv, l, time.Second) }()
			say := func(text string) net.Conn {
				c, err := net.Dial("tcp", l.Addr().String())
				require.NoError(t, err)
				_, _ = io.WriteString(c, text)
				return c
			}
			silent := say("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
			defer silent.Close()
			endless := say("GET /readyz HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
			defer endless.Close()
			require.Eventually(t, func() bool { return came.Load() == 2 && open.Load() == 0 }, time.Minute, time.Millisecond)

			wide := say("GET /readyz HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 2*maxHeaderBytes) + "\r\n\r\n")
			defer wide.Close()
			answer, err := http.ReadResponse(bufio.NewReader(wide), nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, answer.StatusCode)

			again := say("")
			defer again.Close()
			reader := bufio.NewReader(again)
			for range 2 {
				_, err := io.WriteString(again, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
				require.NoError(t, err)
				answer, err := http.ReadResponse(reader, nil)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, answer.Body)
				require.NoError(t, err)
				<-time.After(2 * probeLimit)
			}
			cancel()
			require.NoError(t, <-done)
		})
	}
}

func TestUnknownLogLevelIsSaid(t *testing.T) {
	var out bytes.Buffer
	NewLogger(&out, "loud", "json").Info("hello")
	require.Contains(t, out.String(), "loud")
	require.Contains(t, out.String(), `"msg":"hello"`)
}
