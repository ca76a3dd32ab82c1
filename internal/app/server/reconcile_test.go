// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/link/stock"
)

var deployments = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}

// start runs a backend until the test ends, which asks for a reconciliation so
// long after each connect; prepare sees it before.
func start(t *testing.T, reconcileAfter config.Seconds, prepare func(*Backend)) *Backend {
	t.Helper()
	c := configuration(t, t.TempDir())
	c.Backend.ReconciliationTask.ReconcileAfterConnectSeconds = reconcileAfter
	b, err := Open(t.Context(), app.NewProcess(io.Discard), c)
	require.NoError(t, err)
	if prepare != nil {
		prepare(b)
	}
	untilTestEnds(t, b)
	return b
}

// running is a client in the field whose process has been running for long: it
// says nothing by itself when it connects.
type running struct {
	t  *testing.T
	mu sync.Mutex // guards state
	*stock.Cluster
}

// connect makes a connection that ends with the returned function. What happens
// in the cluster meanwhile is reported with say.
func (r *running) connect(b *Backend) (say func([]stock.Frame), cut func()) {
	r.t.Helper()
	ws := dial(r.t, b)
	ctx, done := context.WithoutCancel(r.t.Context()), make(chan struct{}) // only cut ends it
	send := func(frames []stock.Frame) {
		for _, f := range frames {
			if ws.Write(ctx, websocket.MessageBinary, f.Raw) != nil {
				return // cut
			}
		}
	}
	go func() {
		defer close(done)
		for {
			_, raw, err := ws.Read(ctx)
			if err != nil {
				return
			}
			r.mu.Lock()
			answers := r.Answer(raw)
			r.mu.Unlock()
			send(answers)
		}
	}()
	cut = sync.OnceFunc(func() {
		_ = ws.CloseNow()
		<-done
	})
	r.t.Cleanup(cut)
	return send, cut
}

// dial connects a bare client, whose first frame is a Ping.
func dial(t *testing.T, b *Backend) *websocket.Conn {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ws, _, err := websocket.Dial(t.Context(), "ws://"+b.ClientsAddress(), &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport},
		HTTPHeader: http.Header{
			"X-Api-Account": {LocalAccount}, "X-Api-Cluster": {"c"}, "X-Api-Key": {b.Secrets.AccessKey}, "X-Synchronizer-Version": {"v0.0.140"},
		},
	})
	require.NoError(t, err)
	ws.SetReadLimit(-1)
	require.NoError(t, ws.Write(t.Context(), websocket.MessageBinary, []byte(`{"Depth":0,"Event":7,"Kind":null,"MsgId":"p","AdditionalProperties":null}`)))
	return ws
}

// thing is an object of a cluster.
func thing(kind synchronizer.Kind, name, version, spec string) stock.Object {
	return stock.Object{Kind: kind, Namespace: "demo", Name: name, JSON: fmt.Sprintf(
		`{"apiVersion":%q,"metadata":{"name":%q,"namespace":"demo","resourceVersion":%q,"uid":"uid-%s"},"spec":%s}`,
		kind.GroupVersion(), name, version, name, spec)}
}

// stored gives the bodies of all rows by their names, "" for tombstones.
func stored(t *testing.T, b *Backend) map[string]string {
	t.Helper()
	page, err := b.store.Objects(t.Context(), synchronizer.ObjectQuery{Full: true, Deleted: true, Limit: 1000})
	require.NoError(t, err)
	result := map[string]string{}
	for i := range page.Rows {
		key := page.Rows[i].Key
		result[key.Kind.Resource+"/"+key.Name] = string(page.Rows[i].Body)
	}
	return result
}

// agrees waits until the store has exactly these rows.
func agrees(t *testing.T, b *Backend, want map[string]string) {
	t.Helper()
	ok := func() bool {
		got := stored(t, b)
		if len(got) != len(want) {
			return false
		}
		for name, body := range want {
			if got[name] != body {
				return false
			}
		}
		return true
	}
	deadline := time.Now().Add(limit)
	for !ok() && time.Now().Before(deadline) {
		runtime.Gosched()
		<-time.After(10 * time.Millisecond)
	}
	require.Equal(t, want, stored(t, b))
}

// TestReconcileWhatHappenedWhileAway: deletions, changes and creations while a
// client in the field had no link.
func TestReconcileWhatHappenedWhileAway(t *testing.T) {
	b := start(t, 1, nil)
	r := &running{t: t, Cluster: stock.NewCluster(map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy, deployments: stock.Patch})}
	say, cut := r.connect(b)
	want := map[string]string{}
	for _, o := range []stock.Object{
		thing(configMaps, "stays", "1", `{"a":1}`), thing(configMaps, "changes", "2", `{"a":1}`), thing(configMaps, "goes", "3", `{"a":1}`),
		thing(deployments, "goes", "4", `{"a":1}`),
	} {
		r.mu.Lock()
		frames := r.Set(o)
		r.mu.Unlock()
		say(frames)
		want[o.Kind.Resource+"/"+o.Name] = o.JSON
	}
	agrees(t, b, want)
	cut()

	// Nobody hears of this.
	changed, created := thing(configMaps, "changes", "5", `{"a":2}`), thing(configMaps, "new", "6", `{}`)
	another := thing(deployments, "new", "7", `{}`)
	r.Delete(configMaps, "demo", "goes")
	r.Delete(deployments, "demo", "goes")
	r.Set(changed)
	r.Set(created)
	r.Set(another)
	_, cut = r.connect(b)
	want["configmaps/goes"], want["deployments/goes"] = "", ""
	want["configmaps/changes"], want["configmaps/new"], want["deployments/new"] = changed.JSON, created.JSON, another.JSON
	agrees(t, b, want)
	cut()

	// Now every object of a kind is gone, and only the sentinel keeps asking for it.
	r.Delete(deployments, "demo", "new")
	_, cut = r.connect(b)
	want["deployments/new"] = ""
	agrees(t, b, want)
	cut()
	r.Set(another)
	r.connect(b)
	want["deployments/new"] = another.JSON
	agrees(t, b, want)
}

// TestFirstSyncOfARunningClient: it has reported long ago, to somebody else.
func TestFirstSyncOfARunningClient(t *testing.T) {
	nodes := synchronizer.Kind{Version: "v1", Resource: "nodes"}
	b := start(t, 0, func(b *Backend) { b.ingester.FirstSyncAfter = 300 * time.Millisecond })
	r := &running{t: t, Cluster: stock.NewCluster(map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy, deployments: stock.Patch, nodes: stock.Patch})}
	want := map[string]string{}
	for i := range 30 {
		for _, kind := range []synchronizer.Kind{configMaps, deployments} {
			o := thing(kind, fmt.Sprint("object-", i), fmt.Sprint(100+i), `{"a":1}`)
			r.Set(o)
			want[kind.Resource+"/"+o.Name] = o.JSON
		}
	}
	_, cut := r.connect(b)
	agrees(t, b, want) // all rows, and no tombstone of the sentinel
	require.Eventually(t, func() bool {
		clusters, err := b.store.Clusters(t.Context(), synchronizer.ClusterID{})
		require.NoError(t, err)
		return len(clusters) == 1 && len(clusters[0].Kinds) == 3
	}, limit, time.Millisecond, "a kind without objects is known as well")
	cut()
}

// TestLargeIntegersArriveExactly, although a client in the field rounds them in
// its patches.
func TestLargeIntegersArriveExactly(t *testing.T) {
	b := start(t, 0, nil)
	r := &running{t: t, Cluster: stock.NewCluster(map[synchronizer.Kind]stock.Strategy{deployments: stock.Patch})}
	say, _ := r.connect(b)
	set := func(o stock.Object) {
		r.mu.Lock()
		frames := r.Set(o)
		r.mu.Unlock()
		say(frames)
	}
	first, other := thing(deployments, "web", "1", `{"a":1}`), thing(deployments, "other", "2", `{"a":1}`)
	set(first)
	set(other)
	agrees(t, b, map[string]string{"deployments/web": first.JSON, "deployments/other": other.JSON})
	second := thing(deployments, "web", "3", `{"a":9007199254740993}`)
	set(second)
	agrees(t, b, map[string]string{"deployments/web": second.JSON, "deployments/other": other.JSON})
}

// TestReconcileManyObjects: 100,000 objects of one kind are one batch, and the
// memory that it takes on its way is bounded.
func TestReconcileManyObjects(t *testing.T) {
	const objects, batch = 100_000, 1000
	b := start(t, 1, func(b *Backend) {
		for first := 0; first < objects; first += batch {
			require.NoError(t, b.store.Update(t.Context(), func(tx synchronizer.Tx) error {
				rows := make([]synchronizer.Row, batch)
				for i := range rows {
					o := thing(deployments, fmt.Sprintf("workload-%06d-7c9f8d6b5c", first+i), fmt.Sprint(1_000_000+first+i), manySpec)
					rows[i] = synchronizer.Row{
						Key:             synchronizer.ObjectKey{ClusterID: synchronizer.ClusterID{Account: LocalAccount, Cluster: "c"}, Kind: o.Kind, Namespace: "demo", Name: o.Name},
						ResourceVersion: fmt.Sprint(1_000_000 + first + i), Checksum: fmt.Sprintf("%064x", first+i),
						Order: synchronizer.Order{Generation: 1, Seq: uint64(first + i + 1)}, UpdatedAt: time.Now(), Body: []byte(o.JSON),
					}
				}
				return tx.Write(t.Context(), rows)
			}))
		}
	})
	runtime.GC()
	before, peak := heap(), newPeak()
	defer peak.stop()
	began := time.Now()
	ws := dial(t, b)
	defer func() { _ = ws.CloseNow() }()
	_, r, err := ws.Reader(t.Context())
	require.NoError(t, err)
	first := time.Since(began)
	var frame itemCounter
	size, err := io.Copy(&frame, r)
	require.NoError(t, err)
	most := peak.stop()
	t.Logf("%d objects, frame of %d MiB, first byte after %v (1 to 1.2 s of them waiting), last after %v; heap %d MiB before, %d MiB at most; RSS at most %s",
		frame.items, size>>20, first.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), before>>20, most>>20, rss(t))
	require.Equal(t, objects, frame.items)
	require.Less(t, most-before, uint64(320<<20))
	clusters, err := b.store.Clusters(t.Context(), synchronizer.ClusterID{})
	require.NoError(t, err)
	require.Equal(t, int64(objects), clusters[0].Kinds[0].Objects)
}

// manySpec gives the rows of TestReconcileManyObjects some size.
var manySpec = `{"text":"` + strings.Repeat("x", 200) + `"}`

// itemCounter counts the items of a batch without keeping them.
type itemCounter struct {
	items int
	tail  string
}

func (c *itemCounter) Write(p []byte) (int, error) {
	const item = `"ResourceVersion":`
	text := c.tail + string(p)
	c.items += strings.Count(text, item)
	c.tail = text[max(0, len(text)-len(item)+1):]
	return len(p), nil
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// peak samples the heap until it is stopped.
type peak struct{ stop func() uint64 }

func newPeak() peak {
	end, done := make(chan struct{}), make(chan uint64)
	go func() {
		most := heap()
		for {
			select {
			case <-time.After(2 * time.Millisecond):
				most = max(most, heap())
			case <-end:
				done <- most
				return
			}
		}
	}()
	return peak{sync.OnceValue(func() uint64 { close(end); return <-done })}
}

// rss is the most memory that the process ever had, as the kernel tells.
func rss(t *testing.T) string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown on this system"
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")))
	require.NoError(t, err)
	return fmt.Sprintf("%d MiB", kib>>10)
}
