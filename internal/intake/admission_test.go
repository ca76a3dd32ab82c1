// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

// TestB060 is case B060: five sorts of requests that end early, 500 of each, lose
// no slot and give none back twice.
func TestB060(t *testing.T) {
	w := open(t, noAuth)
	const workers, each = 4, 125
	run := func(request func()) {
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for range each {
					request()
				}
			})
		}
		group.Wait()
		w.empty()
	}
	// A caller that went away is noticed a moment later.
	settled := func() {
		w.eventually("slots of callers that went away", func() bool {
			total, _ := w.admission.inside()
			return total <= workers
		})
	}
	post := func(status int, body string) func() {
		return func() {
			a, err := w.try(http.MethodPost, alertPath, "", strings.NewReader(body))
			require.NoError(t, err)
			require.Equal(t, status, a.status)
		}
	}

	t.Run("client disconnects during the body", func(*testing.T) {
		run(func() {
			c := w.dial(head(alertPath, "Content-Length: 1000") + `{"apiVersion":`)
			require.NoError(t, c.Close())
			settled()
		})
	})
	t.Run("client disconnects while waiting for the writer", func(*testing.T) {
		w.outlet.hold.Store(true)
		defer w.outlet.hold.Store(false)
		body := report("RuntimeAlerts", "a")
		run(func() {
			before := w.outlet.entered.Load()
			c := w.dial(head(alertPath, "Content-Length: "+strconv.Itoa(len(body))) + body)
			w.eventually("the writer has one", func() bool { return w.outlet.entered.Load() > before })
			require.NoError(t, c.Close())
			settled()
		})
		require.Equal(t, int64(workers*each), w.outlet.entered.Load())
	})
	t.Run("broken JSON", func(*testing.T) { run(post(http.StatusBadRequest, `{"apiVersion":`)) })
	t.Run("body over the limit", func(t *testing.T) {
		w.limits.body = 1000 // a copy of the endpoint's own would take a while
		defer func() { w.limits.body = defaultLimits().body }()
		run(post(http.StatusRequestEntityTooLarge, `{"a":"`+strings.Repeat("x", 1000)+`"}`))
	})
	t.Run("panic", func(*testing.T) {
		w.outlet.panics.Store(true)
		defer w.outlet.panics.Store(false)
		run(post(http.StatusInternalServerError, report("RuntimeAlerts", "a")))
	})

	require.Equal(t, maxOthers, w.capacity(streamPath, 12), "at most eight that are no alerts")
	require.Equal(t, maxRequests-maxOthers, w.capacity(alertPath, 5), "ten in total")
	require.LessOrEqual(t, w.outlet.highest.Load(), int64(maxRequests))
}

// TestCapacity: ten at once, of which two only alerts can have; others get 429
// before their body.
func TestCapacity(t *testing.T) {
	w := open(t, noAuth)
	require.Equal(t, maxRequests, w.capacity(alertPath, 13), "alerts may have all")
	require.Equal(t, 0, w.capacity(streamPath, 2))
	a := w.post(alertPath, "", report("RuntimeAlerts", "a"))
	require.Equal(t, 429, a.status)
	require.Equal(t, "60", a.header.Get("Retry-After"))
	require.True(t, a.close)
	require.Equal(t, 6.0, testutil.ToFloat64(w.metrics.requests.WithLabelValues("runtimealerts", "429"))+
		testutil.ToFloat64(w.metrics.requests.WithLabelValues("networkstreams", "429")))
}

// TestFlood has more callers than slots, all the time.
func TestFlood(t *testing.T) {
	w := open(t, noAuth)
	var group sync.WaitGroup
	for i := range 40 {
		path, body := alertPath, report("RuntimeAlerts", "a")
		if i%2 == 0 {
			path, body = streamPath, report("NetworkStreams", "a")
		}
		group.Go(func() {
			for range 50 {
				a, err := w.try(http.MethodPost, path, "", strings.NewReader(body))
				if err != nil || a.status != 202 && a.status != 429 {
					t.Errorf("%d %v", a.status, err)
				}
			}
		})
	}
	group.Wait()
	w.empty()
	require.LessOrEqual(t, w.outlet.highest.Load(), int64(maxRequests))
	require.LessOrEqual(t, w.outlet.highOth.Load(), int64(maxOthers))
}

// TestB061 is case B061: a body over the limit is 413 however it is framed, and
// the server does not read on.
func TestB061(t *testing.T) {
	const size = 4 << 20
	document := func(n int) []byte {
		head, tail := `{"apiVersion":"kubescape.io/v1","kind":"RuntimeAlerts","spec":"`, `"}`
		return []byte(head + strings.Repeat("x", n-len(head)-len(tail)) + tail)
	}
	w := open(t, noAuth)
	chunked := func(body []byte) io.Reader { return io.MultiReader(bytes.NewReader(body)) } // hides the length
	require.Equal(t, 413, w.do(http.MethodPost, alertPath, "", chunked(document(size+1))).status)

	before := w.read.Load()
	require.Equal(t, 413, w.do(http.MethodPost, alertPath, "", bytes.NewReader(document(size+1))).status)
	require.Less(t, w.read.Load()-before, int64(8<<10), "refused by its length")

	for _, body := range []io.Reader{bytes.NewReader(document(size)), chunked(document(size))} {
		require.Equal(t, 202, w.do(http.MethodPost, alertPath, "", body).status)
	}
	for _, msg := range w.outlet.messages() {
		require.Equal(t, document(size), msg.Body)
	}

	before = w.read.Load()
	c := w.dial(head(alertPath, "Content-Length: 10"))
	_, writeErr := c.Write(document(5 << 20))
	_ = c.SetReadDeadline(time.Now().Add(limit))
	text, _ := io.ReadAll(c)
	// What is behind the ten bytes breaks the connection, perhaps before the answer is read.
	require.True(t, writeErr != nil || len(text) == 0 || bytes.HasPrefix(text, []byte("HTTP/1.1 400 ")), "%s", text)
	w.empty()
	require.Less(t, w.read.Load()-before, int64(16<<10), "it did not read on")
	require.Len(t, w.outlet.messages(), 2)

	require.Equal(t, 413, w.do(http.MethodPost, alertPath, "", chunked(document(5<<20))).status)
	w.empty()
	w.client.CloseIdleConnections()
	w.eventually("connections are free", func() bool { return len(w.connections) == 1 }) // the one that is waited for
	require.Equal(t, maxRequests, w.capacity(alertPath, 12))
}

// TestLyingLength: a body that is shorter than declared, with the caller gone,
// and one that is longer, in a request of the right kind.
func TestLyingLength(t *testing.T) {
	w := open(t, noAuth)
	body := report("RuntimeAlerts", "a")
	c := w.dial(head(alertPath, "Content-Length: 4000") + body)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	require.Equal(t, 400, response(t, c).StatusCode)
	// A valid report with something behind it: the report counts, the rest is no request.
	c = w.dial(head(alertPath, "Content-Length: "+strconv.Itoa(len(body))) + body + body)
	require.Equal(t, 202, response(t, c).StatusCode)
	// Both framings at once are how requests are smuggled.
	c = w.dial(head(alertPath, "Content-Length: 3\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked") + "0\r\n\r\n")
	require.GreaterOrEqual(t, response(t, c).StatusCode, 400)
	w.empty()
	require.Len(t, w.outlet.messages(), 1)
}

// TestRefusedInSilence: while the backend is away a caller with a large body gets
// its answer, whether it sends the body or waits to be asked for it.
func TestRefusedInSilence(t *testing.T) {
	w := open(t, noAuth)
	w.outlet.away.Store(true)
	before := w.read.Load()
	for range 10 {
		a := w.do(http.MethodPost, alertPath, "", bytes.NewReader(make([]byte, 3<<20)))
		require.Equal(t, 429, a.status)
		require.Equal(t, "60", a.header.Get("Retry-After"))
	}
	require.Less(t, w.read.Load()-before, int64(10*8<<10), "bodies were not read")
	c := w.dial(head(alertPath, "Content-Length: 100\r\nExpect: 100-continue"))
	require.Equal(t, 429, response(t, c).StatusCode, "and not 100 Continue")
	// An endless body is thrown away for a moment only.
	c = w.dial(head(alertPath, "Transfer-Encoding: chunked"))
	require.Equal(t, 429, response(t, c).StatusCode)
	w.eventually("the connection ends", func() bool {
		_, err := c.Write([]byte("1\r\nx\r\n"))
		return err != nil
	})
	w.outlet.away.Store(false)
	require.Equal(t, 202, w.post(alertPath, "", report("RuntimeAlerts", "a")).status)
}

// TestSlowBody: a body that stops arriving costs a slot for the read timeout.
func TestSlowBody(t *testing.T) {
	w := open(t, func(o *Options, l *limits) {
		noAuth(o, l)
		l.read = 100 * time.Millisecond
	})
	for _, line := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		c := w.dial(head(alertPath, line))
		require.Equal(t, 408, response(t, c).StatusCode)
	}
	w.empty()
	// So does one that the outlet does not take.
	w.outlet.hold.Store(true)
	a := w.post(alertPath, "", report("RuntimeAlerts", "a"))
	require.Equal(t, 503, a.status)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	w.empty()
}

func TestOutletErrors(t *testing.T) {
	w := open(t, noAuth)
	for _, c := range []struct {
		err    error
		status int
	}{
		{errors.Join(errors.New("sending"), synchronizer.ErrDisconnected), 429},
		{synchronizer.ErrTooLarge, 413},
		{errors.New("disk full"), 503},
		{context.Canceled, 503},
	} {
		w.outlet.fail.Store(&c.err)
		a := w.post(alertPath, "", report("RuntimeAlerts", "a"))
		require.Equal(t, c.status, a.status)
		require.Equal(t, c.status != 413, a.header.Get("Retry-After") == "60")
	}
	require.Contains(t, w.log.String(), "disk full")
}

// TestAdmission compares with a list of who is inside.
func TestAdmission(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a admission
		type slot struct {
			leave func()
			alert bool
		}
		var inside, left []slot
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				alert, others := rapid.Bool().Draw(t, "alert"), 0
				for _, s := range inside {
					if !s.alert {
						others++
					}
				}
				leave, ok := a.enter(alert)
				require.Equal(t, len(inside) < 10 && (alert || others < 8), ok)
				if ok {
					inside = append(inside, slot{leave, alert})
				}
			},
			"leave": func(t *rapid.T) {
				if len(inside) == 0 {
					t.Skip("nobody is inside")
				}
				i := rapid.IntRange(0, len(inside)-1).Draw(t, "which")
				inside[i].leave()
				left = append(left, inside[i])
				inside = append(inside[:i:i], inside[i+1:]...)
			},
			"leave again": func(t *rapid.T) {
				if len(left) == 0 {
					t.Skip("nobody has left")
				}
				rapid.SampledFrom(left).Draw(t, "who").leave()
			},
			"": func(t *rapid.T) {
				total, _ := a.inside()
				require.Equal(t, len(inside), total)
			},
		})
	})
}
