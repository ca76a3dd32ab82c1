// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"synchronizer"
)

var configMaps = synchronizer.Kind{Version: "v1", Resource: "configmaps"}

const discovery = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","namespaced":true,"kind":"ConfigMap","verbs":["get","list","watch"]}]}`

// serve runs an API server that answers everything but discovery with handler.
func serve(t *testing.T, options Options, handler http.HandlerFunc) *Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1" {
			_, _ = io.WriteString(w, discovery)
			return
		}
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	options.Config = &rest.Config{Host: server.URL}
	c, err := New(options)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func answers(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func ignoreItem(synchronizer.Object) error      { return nil }
func ignoreEvent(synchronizer.WatchEvent) error { return nil }

func TestAnswersThatAreErrors(t *testing.T) {
	var pause *synchronizer.RetryAfterError
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    error
		after   time.Duration
	}{
		"401":                   {handler: answers(401, "no"), want: synchronizer.ErrForbidden},
		"403":                   {handler: answers(403, `{"kind":"Status","message":"may not"}`), want: synchronizer.ErrForbidden},
		"404":                   {handler: answers(404, "404 page not found\n"), want: synchronizer.ErrKindNotServed},
		"410":                   {handler: answers(410, `{"kind":"Status","code":410}`), want: synchronizer.ErrGone},
		"429":                   {handler: answers(429, "slow", "Retry-After", "7"), after: 7 * time.Second},
		"429 without a header":  {handler: answers(429, "slow"), after: time.Second},
		"429 with a bad header": {handler: answers(429, "slow", "Retry-After", "99999999999"), after: maxRetryAfter},
		"503":                   {handler: answers(503, "down", "Retry-After", "3"), after: 3 * time.Second},
		"503 from its status":   {handler: answers(503, `{"kind":"Status","details":{"retryAfterSeconds":4}}`), after: 4 * time.Second},
		"503 without":           {handler: answers(503, "down")},
		"500":                   {handler: answers(500, strings.Repeat("x", 1000))},
		"302":                   {handler: answers(302, "", "Location", "http://example.invalid/")},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, Options{}, test.handler)
			_, list := c.List(t.Context(), configMaps, ignoreItem)
			watch := c.Watch(t.Context(), configMaps, "1", ignoreEvent)
			_, get := c.Get(t.Context(), configMaps, "n", "a")
			for verb, err := range map[string]error{"list": list, "watch": watch, "get": get} {
				require.Error(t, err, verb)
				require.Contains(t, err.Error(), "/v1/configmaps", verb)
				if test.want != nil {
					require.ErrorIs(t, err, test.want, verb)
				}
				if test.after > 0 {
					require.ErrorAs(t, err, &pause, verb)
					require.Equal(t, test.after, pause.After, verb)
				} else {
					require.False(t, errors.As(err, &pause), verb)
				}
			}
		})
	}
}

func TestGet404(t *testing.T) {
	c := serve(t, Options{}, answers(404, `{"kind":"Status","reason":"NotFound","details":{"name":"a","kind":"configmaps"},"message":"configmaps \"a\" not found"}`))
	_, err := c.Get(t.Context(), configMaps, "n", "a")
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	require.NotErrorIs(t, err, synchronizer.ErrKindNotServed)
}

func TestNamesNeverLeadElsewhere(t *testing.T) {
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) })
	for _, name := range []string{"", ".", "..", "../secrets/s", "a/b", "a%2Fb", "a?watch=1", "a#b", `a\b`, "a\nb"} {
		_, err := c.Get(t.Context(), configMaps, "n", name)
		require.ErrorIs(t, err, synchronizer.ErrNotFound, name)
		if name != "" {
			_, err = c.Get(t.Context(), configMaps, name, "n")
			require.ErrorIs(t, err, synchronizer.ErrNotFound, name)
		}
		_, err = c.Get(t.Context(), synchronizer.Kind{Version: "v1", Resource: name}, "n", "n")
		require.ErrorIs(t, err, synchronizer.ErrKindNotServed, name)
	}
}

func TestGetGivesTheBytesOfList(t *testing.T) {
	c := serve(t, Options{}, answers(200, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","resourceVersion":"4"},"n":1.0}`+"\n"))
	o, err := c.Get(t.Context(), configMaps, "n", "a")
	require.NoError(t, err)
	require.Equal(t, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","resourceVersion":"4"},"n":1.0}`, string(o.Body))
	require.Equal(t, "4", o.ResourceVersion)

	c = serve(t, Options{ItemBytes: 10}, answers(200, `{"metadata":{"name":"a"}}`))
	_, err = c.Get(t.Context(), configMaps, "n", "a")
	require.ErrorIs(t, err, synchronizer.ErrTooLarge)
}

func TestListOverPages(t *testing.T) {
	registry := prometheus.NewRegistry()
	var queries []string
	c := serve(t, Options{PageSize: 40, Registerer: registry}, func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		next := map[string]string{"": "one", "one": "two&=/", "two&=/": ""}[r.URL.Query().Get("continue")]
		_, _ = fmt.Fprintf(w, `{"metadata":{"resourceVersion":"9","continue":%q},"items":[{"metadata":{"name":"a%s"},"d":%q}]}`, next, next, strings.Repeat("x", 20000))
	})
	n := 0
	version, err := c.List(t.Context(), configMaps, func(synchronizer.Object) error { n++; return nil })
	require.NoError(t, err)
	require.Equal(t, "9", version)
	require.Equal(t, 3, n)
	require.Equal(t, []string{"limit=40", "continue=one&limit=20", "continue=two%26%3D%2F&limit=10"}, queries)
	require.InDelta(t, 3, testutil.ToFloat64(c.metrics.pages), 0)
	require.InDelta(t, 3, testutil.ToFloat64(c.metrics.requests.WithLabelValues("list", "200")), 0)

	_, err = c.List(t.Context(), configMaps, ignoreItem)
	require.NoError(t, err)
	require.Equal(t, "limit=10", queries[3], "what the list before has learned")
}

func TestListThatBreaksOff(t *testing.T) {
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("continue") {
		case "":
			_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"9","continue":"expired"},"items":[{"metadata":{"name":"a"}}]}`)
		case "expired":
			answers(410, `{"kind":"Status","reason":"Expired","code":410,"metadata":{"continue":"inconsistent"}}`)(w, r)
		}
	})
	_, err := c.List(t.Context(), configMaps, ignoreItem)
	require.ErrorIs(t, err, synchronizer.ErrGone)

	c = serve(t, Options{}, answers(200, `{"metadata":{"resourceVersion":"9","continue":"same"},"items":[]}`))
	_, err = c.List(t.Context(), configMaps, ignoreItem)
	require.ErrorContains(t, err, "same continue token")
}

// Every prefix of a list, over HTTP: with the length of the whole list announced,
// in chunks that are cut, and as an answer that claims to be whole.
func TestListIsNeverShort(t *testing.T) {
	const list = `{"kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`
	var cut atomic.Int64
	var how atomic.Int64
	c := serve(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		switch how.Load() {
		case 0:
			w.Header().Set("Content-Length", fmt.Sprint(len(list)))
			_, _ = io.WriteString(w, list[:cut.Load()])
		case 1:
			_, _ = io.WriteString(w, list[:cut.Load()])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case 2:
			_, _ = io.WriteString(w, list[:cut.Load()])
		}
	})
	for h := range int64(3) {
		how.Store(h)
		for i := range int64(len(list)) {
			cut.Store(i)
			_, err := c.List(t.Context(), configMaps, ignoreItem)
			require.Error(t, err, "way %d, cut at byte %d", h, i)
		}
	}
	cut.Store(int64(len(list)))
	version, err := c.List(t.Context(), configMaps, ignoreItem)
	require.NoError(t, err)
	require.Equal(t, "7", version)
}

// A compressed list that is cut is not complete either.
func TestCompressedList(t *testing.T) {
	const list = `{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}`
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, list)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	var cut atomic.Int64
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("not asked for gzip")
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes()[:cut.Load()])
	})
	for i := range int64(packed.Len()) {
		cut.Store(i)
		_, err := c.List(t.Context(), configMaps, ignoreItem)
		require.Error(t, err, "cut at byte %d", i)
	}
	cut.Store(int64(packed.Len()))
	_, err = c.List(t.Context(), configMaps, ignoreItem)
	require.NoError(t, err)
}

func TestKindThatComesAndGoes(t *testing.T) {
	var resources atomic.Value
	resources.Store(`[]`)
	asked := atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apis/x.io/v1":
			asked.Add(1)
			_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","resources":%s}`, resources.Load())
		case "/apis/x.io/v1/things":
			if resources.Load() == `[]` {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, `{"items":[],"metadata":{"resourceVersion":"1"}}`)
		}
	}))
	defer server.Close()
	c, err := New(Options{Config: &rest.Config{Host: server.URL}})
	require.NoError(t, err)
	defer c.Close()
	things := synchronizer.Kind{Group: "x.io", Version: "v1", Resource: "things"}
	list := func() error {
		_, err := c.List(t.Context(), things, ignoreItem)
		return err
	}
	require.ErrorIs(t, list(), synchronizer.ErrKindNotServed)
	resources.Store(`[{"name":"things","kind":"Thing","namespaced":true,"verbs":["list"]}]`)
	require.NoError(t, list())
	require.NoError(t, list())
	require.EqualValues(t, 2, asked.Load(), "remembered")
	described, err := c.Describe(t.Context(), things)
	require.NoError(t, err)
	require.Equal(t, Description{ObjectKind: "Thing", Namespaced: true, Verbs: []string{"list"}}, described)
	resources.Store(`[]`)
	require.ErrorIs(t, list(), synchronizer.ErrKindNotServed)
	require.ErrorIs(t, list(), synchronizer.ErrKindNotServed)
	require.EqualValues(t, 3, asked.Load(), "asked again after the 404")
}

func TestWatchFaults(t *testing.T) {
	const added = `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"5"}}}` + "\n"
	failure := func(s string) string { return added + `{"type":"ERROR","object":{"kind":"Status",` + s + `}}` + "\n" }
	var pause *synchronizer.RetryAfterError
	for name, test := range map[string]struct {
		body  string
		check func(t *testing.T, err error)
	}{
		"end of the time limit": {added, func(t *testing.T, err error) { require.NoError(t, err) }},
		"expired":               {failure(`"code":410,"reason":"Expired"`), func(t *testing.T, err error) { require.ErrorIs(t, err, synchronizer.ErrGone) }},
		"fault of the server": {failure(`"code":500,"message":"etcd"`), func(t *testing.T, err error) {
			require.ErrorContains(t, err, "500")
			require.ErrorContains(t, err, "/v1/configmaps")
		}},
		"throttled": {failure(`"code":429,"details":{"retryAfterSeconds":5}`), func(t *testing.T, err error) {
			require.ErrorAs(t, err, &pause)
			require.Equal(t, 5*time.Second, pause.After)
		}},
		"garbage line": {added + "garbage\n" + added, func(t *testing.T, err error) { require.ErrorContains(t, err, "/v1/configmaps") }},
		"cut":          {added + added[:40], func(t *testing.T, err error) { require.ErrorIs(t, err, io.ErrUnexpectedEOF) }},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, Options{}, answers(200, test.body))
			n := 0
			err := c.Watch(t.Context(), configMaps, "1", func(synchronizer.WatchEvent) error { n++; return nil })
			require.Equal(t, 1, n)
			test.check(t, err)
		})
	}
}

// silent answers with body and then says nothing more.
func silent(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, body)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func TestSilence(t *testing.T) {
	c := serve(t, Options{WatchSilence: 50 * time.Millisecond, ReadSilence: 50 * time.Millisecond}, silent(`{"items":[`))
	_, err := c.List(t.Context(), configMaps, ignoreItem)
	require.ErrorIs(t, err, errSilent)
	require.ErrorIs(t, c.Watch(t.Context(), configMaps, "1", ignoreEvent), errSilent)
	require.InDelta(t, 1, testutil.ToFloat64(c.metrics.watchEnds.WithLabelValues("silent")), 0)
	_, err = c.Get(t.Context(), configMaps, "n", "a")
	require.ErrorIs(t, err, errSilent)

	c = serve(t, Options{WatchSilence: 50 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	require.ErrorIs(t, c.Watch(t.Context(), configMaps, "1", ignoreEvent), errSilent, "no answer at all")
}

func TestCancelEndsABlockedRead(t *testing.T) {
	c := serve(t, Options{}, silent(`{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"5"}}}`))
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Watch(ctx, configMaps, "1", func(e synchronizer.WatchEvent) error {
		require.Equal(t, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"5"}}`, string(e.Object.Body))
		go cancel()
		return nil
	})
	require.Equal(t, context.Canceled, err)
}

func TestErrorOfTheCallback(t *testing.T) {
	own := errors.New("enough")
	c := serve(t, Options{}, answers(200, `{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`))
	_, err := c.List(t.Context(), configMaps, func(synchronizer.Object) error { return own })
	require.Equal(t, own, err)
}

func TestLimiter(t *testing.T) {
	c := serve(t, Options{QPS: 0.0001, Burst: 1}, answers(404, ""))
	_, err := c.Get(t.Context(), configMaps, "n", "a")
	require.ErrorIs(t, err, synchronizer.ErrKindNotServed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Get(ctx, configMaps, "n", "a")
	require.ErrorIs(t, err, context.Canceled)
}
