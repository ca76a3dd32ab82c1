// SPDX-License-Identifier: Apache-2.0

package stock_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer"
	"synchronizer/internal/link"
	"synchronizer/internal/link/linktest"
	"synchronizer/internal/link/stock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	configmaps = synchronizer.Kind{Version: "v1", Resource: "configmaps"}
	widgets    = synchronizer.Kind{Group: "example.com", Version: "v1", Resource: "widgets"}
	kinds      = map[synchronizer.Kind]stock.Strategy{configmaps: stock.Copy, widgets: stock.Patch}
)

// serve gives the server ends of our links.
func serve(t *testing.T) (string, <-chan synchronizer.Link) {
	links := make(chan synchronizer.Link, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hello, _, err := link.ParseHello(r, link.ExtraHeaders{})
		if err != nil {
			link.Refuse(w, err)
			return
		}
		if l, err := link.Accept(w, r, link.Options{Hello: hello}); err == nil {
			links <- l
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, links
}

func receive(t *testing.T, l synchronizer.Link) synchronizer.Message {
	m, err := l.Receive(t.Context())
	require.NoError(t, err)
	return m
}

func get(kind synchronizer.Kind, name, base string) synchronizer.Message {
	return synchronizer.Message{Event: synchronizer.EventGet, Depth: 2, MsgID: "id", Kind: kind, Namespace: "demo", Name: name, Body: []byte(base)}
}

// TestStockClientWithOurServer goes through the life of an object.
func TestStockClientWithOurServer(t *testing.T) {
	const v1, v2 = `{"metadata":{"resourceVersion":"1"},"spec":{"size":1}}`, `{"metadata":{"resourceVersion":"2"},"spec":{"size":2}}`
	url, links := serve(t)
	c := stock.Connect(t, url, stock.ClientOptions{Kinds: kinds, Objects: []stock.Object{{Kind: widgets, Namespace: "demo", Name: "w", JSON: v1}}})
	l := <-links
	require.Equal(t, "account/cluster", l.Peer().ClusterID.String())

	m := receive(t, l)
	require.Equal(t, synchronizer.EventVerify, m.Event)
	require.Equal(t, stock.Checksum(v1), m.Checksum)
	require.NoError(t, l.Send(t.Context(), get(widgets, "w", "")))
	m = receive(t, l)
	require.Equal(t, synchronizer.EventPut, m.Event)
	require.Equal(t, 3, m.Depth)
	require.JSONEq(t, v1, string(m.Body))
	c.Set(stock.Object{Kind: widgets, Namespace: "demo", Name: "w", JSON: v2})
	m = receive(t, l)
	require.Equal(t, synchronizer.EventPatch, m.Event)
	require.JSONEq(t, `{"metadata":{"resourceVersion":"2"},"spec":{"size":2}}`, string(m.Body))
	require.NoError(t, l.Send(t.Context(), get(widgets, "w", "")))
	require.Equal(t, "{}", string(receive(t, l).Body))

	// Down: a patch that keeps the resourceVersion is refused and becomes the baseline (4, 5).
	patched := `{"metadata":{"resourceVersion":"2"},"spec":{"size":3}}`
	down := synchronizer.Message{Event: synchronizer.EventPatch, Depth: 2, MsgID: "id", Kind: widgets, Namespace: "demo", Name: "w", Body: []byte(`{"spec":{"size":3}}`)}
	down.Checksum = stock.Checksum(patched)
	require.NoError(t, l.Send(t.Context(), down))
	require.Equal(t, synchronizer.EventGet, receive(t, l).Event)
	require.NoError(t, l.Send(t.Context(), get(widgets, "w", "")))
	require.JSONEq(t, `{"spec":{"size":2}}`, string(receive(t, l).Body), "it undoes what was never written")
	require.JSONEq(t, v2, c.JSON(widgets, "demo", "w"))
	// One that removes it is written. Only the resourceVersion comes back, so there is no echo (8).
	down.Body = []byte(`{"metadata":{"resourceVersion":null},"spec":{"size":3}}`)
	down.Checksum = stock.Checksum(`{"metadata":{},"spec":{"size":3}}`)
	require.NoError(t, l.Send(t.Context(), down))
	require.Eventually(t, func() bool { return strings.Contains(c.JSON(widgets, "demo", "w"), `"size":3`) }, linktest.Limit, time.Millisecond)
	put := synchronizer.Message{Event: synchronizer.EventPut, Depth: 2, Kind: configmaps, Namespace: "demo", Name: "new", Body: []byte(`{"metadata":{},"data":{}}`)}
	require.NoError(t, l.Send(t.Context(), put))
	m = receive(t, l)
	require.Equal(t, "new", m.Name)
	require.Equal(t, synchronizer.EventVerify, m.Event)
	require.Equal(t, 1, m.Depth)

	c.Delete(widgets, "demo", "w")
	require.Equal(t, synchronizer.EventDelete, receive(t, l).Event)
	c.Cut()
	_, err := l.Receive(t.Context())
	require.ErrorIs(t, err, synchronizer.ErrDisconnected)
	require.NoError(t, l.Close(1000, ""))
}

// TestServerWritesNothingEarly sends at once; a stock client would lose bytes
// that come with the answer to its upgrade.
func TestServerWritesNothingEarly(t *testing.T) {
	url, links := serve(t)
	for range 20 {
		sent := make(chan error, 1)
		go func() {
			l := <-links
			go func() { sent <- l.Send(t.Context(), get(configmaps, "x", "")) }()
			for {
				if _, err := l.Receive(t.Context()); err != nil {
					_ = l.Close(1000, "")
					return
				}
			}
		}()
		c := stock.Connect(t, url, stock.ClientOptions{Kinds: kinds})
		c.WaitFor(stock.GetObject, configmaps, "demo", "x")
		require.NoError(t, <-sent)
		c.Close()
	}
}

func TestStockServerWithOurClient(t *testing.T) {
	s := stock.NewServer(t)
	d := &link.Dialer{
		URL: s.URL, AccessKey: "key", Hello: synchronizer.Hello{ClusterID: synchronizer.ClusterID{Account: "a", Cluster: "c"}},
		Limits: link.Limits{PingInterval: 20 * time.Millisecond},
	}
	s.Refuse(http.StatusFailedDependency, "too old")
	_, err := d.Dial(t.Context())
	require.ErrorIs(t, err, synchronizer.ErrUnsupportedVersion)
	require.ErrorContains(t, err, "too old")
	s.Refuse(0, "")

	client, err := d.Dial(t.Context())
	require.NoError(t, err)
	session := s.Next()
	require.Equal(t, "a", session.Header.Get("X-API-ACCOUNT"))
	require.NoError(t, client.Send(t.Context(), linktest.Checksum("web")))
	session.WaitFor(stock.NewChecksum, linktest.Deployments, "default", "web")
	first := session.Received()[0]
	require.Equal(t, stock.Ping, *first.Event)
	require.Equal(t, `{"Depth":0,"Event":7,"Kind":null,"MsgId":"`+first.MsgId+`","AdditionalProperties":null}`, string(first.Raw))
	pings := 0
	session.Wait(func(f *stock.Frame) bool {
		if f.Event != nil && *f.Event == stock.Ping {
			pings++
		}
		return pings == 3
	})
	require.NoError(t, session.Send([]byte(`{"ResourceVersion":0,"BaseObject":"","Depth":2,"Event":4,"Kind":{"Group":"","Version":"v1","Resource":"pods","AdditionalProperties":null},"MsgId":"m","Name":"x","Namespace":"demo","AdditionalProperties":null}`)))
	m := receive(t, client)
	require.Equal(t, synchronizer.EventGet, m.Event)
	session.Cut()
	_, err = client.Receive(t.Context())
	require.ErrorIs(t, err, synchronizer.ErrDisconnected)
	require.NoError(t, client.Close(1000, ""))
	require.Zero(t, s.Connected())
}

// TestHeldReader checks that our server waits for a client that does not read.
func TestHeldReader(t *testing.T) {
	url, links := serve(t)
	c := stock.Connect(t, url, stock.ClientOptions{Kinds: kinds, HoldReading: true})
	l := <-links
	go func() {
		for {
			if _, err := l.Receive(t.Context()); err != nil {
				return
			}
		}
	}()
	sent := make(chan error, 1)
	const most = 20
	go func() {
		for range most {
			if err := l.Send(t.Context(), linktest.Put("big", 1<<20)); err != nil {
				sent <- err
				return
			}
		}
		sent <- l.Send(t.Context(), get(configmaps, "last", ""))
	}()
	select {
	case err := <-sent:
		require.Fail(t, "20 MiB fit nowhere", "%v", err)
	case <-time.After(200 * time.Millisecond): // that nothing happens can only be watched
	}
	c.Resume()
	require.NoError(t, <-sent)
	c.WaitFor(stock.GetObject, configmaps, "demo", "last")
	require.NoError(t, l.Close(1001, ""))
	<-c.Done()
}
