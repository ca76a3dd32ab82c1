// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/filter"
	"synchronizer/internal/kube/kubefake"
)

const (
	updated  = "namespace filters updated"
	waiting  = "waiting for valid namespace filter ConfigMap"
	rejected = "namespace filters rejected"
	kept     = "namespace filter ConfigMap cannot be read, the last valid rules stay in force"
)

// journal keeps the lines of a log.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

// lines are those with a message, decoded.
func (j *journal) lines(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range bytes.Lines(j.text.Bytes()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal(line, &fields))
		if fields["msg"] == message {
			found = append(found, fields)
		}
	}
	return found
}

func (j *journal) count(t *testing.T, message string) int {
	t.Helper()
	return len(j.lines(t, message))
}

// configMap is a ConfigMap kubescape/name with a document.
func configMap(name, document string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"kubescape","name":%q},"data":{%q:%q}}`,
		name, filter.DocumentKey, document)
}

func excluding(namespace string) string {
	return fmt.Sprintf(`{"includeNamespaces":[],"excludeNamespaces":[%q]}`, namespace)
}

// running is a watcher that runs in the background.
type running struct {
	*filter.Watcher
	t        *testing.T
	live     *filter.Live
	log      *journal
	registry *prometheus.Registry
}

func run(t *testing.T, source filter.Source) *running {
	t.Helper()
	r := &running{t: t, live: filter.NewLive("kubescape", false), log: &journal{}, registry: prometheus.NewRegistry()}
	var err error
	r.Watcher, err = filter.NewWatcher(filter.WatcherOptions{
		Source: source, Live: r.live, Namespace: "kubescape", Name: "namespace-filters",
		Logger: r.log.logger(), Registerer: r.registry,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *running) isReady() bool {
	select {
	case <-r.Ready():
		require.NoError(r.t, r.Err())
		return true
	default:
		require.ErrorContains(r.t, r.Err(), waiting+" kubescape/namespace-filters")
		return false
	}
}

func TestWatcherFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kubefake.New()
		cluster.Put(configmaps, configMap("other", excluding("x")))
		version := cluster.Put(configmaps, configMap("namespace-filters", excluding("a")))
		r := run(t, cluster)
		synctest.Wait()
		require.True(t, r.isReady())
		require.False(t, r.live.Namespace("a"))
		require.True(t, r.live.Namespace("x"), "other ConfigMaps mean nothing")
		first := r.log.lines(t, updated)
		require.Len(t, first, 1)
		require.Equal(t, "kubescape/namespace-filters", first[0]["configMap"])
		require.Equal(t, version, first[0]["resourceVersion"])

		cluster.Put(configmaps, configMap("namespace-filters", excluding("b")))
		synctest.Wait()
		require.True(t, r.live.Namespace("a"))
		require.False(t, r.live.Namespace("b"))
		require.Equal(t, 2, r.log.count(t, updated))

		// The same lists in another form are no change.
		cluster.Put(configmaps, configMap("namespace-filters", `{"excludeNamespaces":"b","includeNamespaces":"","includeNamespacesRegex":" "}`))
		synctest.Wait()
		require.Equal(t, 2, r.log.count(t, updated))
		require.Zero(t, r.log.count(t, rejected))
		require.NoError(t, testutil.GatherAndCompare(r.registry, bytes.NewBufferString(`
# HELP synchronizer_namespace_filter_updates_total States of the namespace filter ConfigMap that were read, by result: applied, unchanged (the same lists as before), rejected.
# TYPE synchronizer_namespace_filter_updates_total counter
synchronizer_namespace_filter_updates_total{result="applied"} 2
synchronizer_namespace_filter_updates_total{result="rejected"} 0
synchronizer_namespace_filter_updates_total{result="unchanged"} 1
`)))
	})
}

func TestWatcherWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kubefake.New()
		cluster.Serve(configmaps)
		cluster.FailList(configmaps, fmt.Errorf("listing: %w", synchronizer.ErrForbidden))
		r := run(t, cluster)
		time.Sleep(time.Minute) // synctest's clock, no real time
		require.False(t, r.isReady())
		require.False(t, r.live.Namespace("a"))
		require.Equal(t, 2, r.log.count(t, waiting), "at the start, and once for the reason")
		require.Equal(t, "listing: forbidden", r.log.lines(t, waiting)[1]["reason"])
		require.Less(t, cluster.Lists(configmaps), 12, "attempts are spaced out")

		cluster.FailList(configmaps, nil)
		time.Sleep(20 * time.Second) // synctest's clock, no real time
		require.False(t, r.isReady(), "it is missing")
		require.Equal(t, 3, r.log.count(t, waiting))

		cluster.Put(configmaps, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"kubescape","name":"namespace-filters"},"data":{"other":"{}"}}`))
		synctest.Wait()
		require.False(t, r.isReady(), "its key is missing")
		require.Contains(t, r.log.lines(t, rejected)[0]["error"], filter.DocumentKey)

		cluster.Put(configmaps, configMap("namespace-filters", excluding("a")))
		synctest.Wait()
		require.True(t, r.isReady())
		require.True(t, r.live.Namespace("b"))
	})
}

func TestWatcherSurvives(t *testing.T) {
	outage := errors.New("connection refused")
	for name, cut := range map[string]func(*kubefake.Cluster){
		"watch cut":        func(c *kubefake.Cluster) { c.BreakWatches(configmaps) },
		"watch at its end": func(c *kubefake.Cluster) { c.EndWatches(configmaps) },
		"watch too slow":   func(c *kubefake.Cluster) { c.ExpireWatches(configmaps) },
		"history is gone": func(c *kubefake.Cluster) {
			c.CompactBefore(c.ResourceVersion())
			c.BreakWatches(configmaps)
		},
		"API server away": func(c *kubefake.Cluster) {
			c.FailNext(kubefake.VerbList, configmaps, outage, outage, outage)
			c.BreakWatches(configmaps)
		},
		"asked to wait": func(c *kubefake.Cluster) {
			c.FailNext(kubefake.VerbList, configmaps, &synchronizer.RetryAfterError{After: time.Minute, Err: outage})
			c.BreakWatches(configmaps)
		},
		"rights taken away": func(c *kubefake.Cluster) {
			c.FailNext(kubefake.VerbList, configmaps, synchronizer.ErrForbidden, synchronizer.ErrForbidden)
			c.FailNext(kubefake.VerbWatch, configmaps, synchronizer.ErrForbidden)
			c.BreakWatches(configmaps)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kubefake.New()
				cluster.Put(configmaps, configMap("namespace-filters", excluding("a")))
				r := run(t, cluster)
				synctest.Wait()
				cut(cluster)
				synctest.Wait()
				require.False(t, r.live.Namespace("a"), "the last valid rules stay in force")
				require.True(t, r.live.Namespace("b"))
				cluster.Put(configmaps, configMap("namespace-filters", excluding("b")))
				time.Sleep(2 * time.Minute) // synctest's clock, no real time
				require.True(t, r.live.Namespace("a"))
				require.False(t, r.live.Namespace("b"))
				require.Equal(t, 2, r.log.count(t, updated))
				require.Zero(t, cluster.Gets(configmaps))
			})
		})
	}
}

func TestWatcherHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kubefake.New()
		cluster.Serve(configmaps)
		cluster.FailNext(kubefake.VerbList, configmaps, &synchronizer.RetryAfterError{After: time.Minute, Err: errors.New("busy")})
		run(t, cluster)
		time.Sleep(59 * time.Second) // synctest's clock, no real time
		require.Equal(t, 1, cluster.Lists(configmaps))
		time.Sleep(2 * time.Second) // synctest's clock, no real time
		require.Equal(t, 2, cluster.Lists(configmaps))
	})
}

// TestWatcherLooksOnceAtAState: a rejected document is not warned about again
// whenever a broken watch makes it be listed again.
func TestWatcherLooksOnceAtAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kubefake.New()
		cluster.Put(configmaps, configMap("namespace-filters", "{}"))
		r := run(t, cluster)
		for range 3 {
			time.Sleep(30 * time.Second) // synctest's clock, no real time
			cluster.BreakWatches(configmaps)
		}
		time.Sleep(30 * time.Second) // synctest's clock, no real time
		require.Greater(t, cluster.Lists(configmaps), 3)
		require.Equal(t, 1, r.log.count(t, rejected))
		require.Equal(t, "WARN", r.log.lines(t, rejected)[0]["level"])

		cluster.Put(configmaps, configMap("namespace-filters", "{}"))
		synctest.Wait()
		require.Equal(t, 2, r.log.count(t, rejected), "another update")
	})
}

// TestWatcherNamesASecondOutage: the line comes once per outage.
func TestWatcherNamesASecondOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kubefake.New()
		cluster.Put(configmaps, configMap("namespace-filters", excluding("a")))
		r := run(t, cluster)
		for i := range 2 {
			synctest.Wait()
			cluster.FailList(configmaps, synchronizer.ErrForbidden)
			cluster.BreakWatches(configmaps)
			time.Sleep(time.Minute) // synctest's clock, no real time
			require.Equal(t, 2*i+2, r.log.count(t, kept), "the cut, and why it stays")
			cluster.FailList(configmaps, nil)
			time.Sleep(time.Minute) // synctest's clock, no real time
			cluster.Bookmark(configmaps)
			synctest.Wait()
			require.Equal(t, i+1, r.log.count(t, "namespace filter ConfigMap is read again"))
		}
	})
}

func TestWatcherRejectsAnUnreadableObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kubefake.New()
		cluster.Put(configmaps, configMap("namespace-filters", excluding("a")))
		cluster.FailItem(configmaps, "kubescape", "namespace-filters", synchronizer.ErrTooLarge)
		r := run(t, cluster)
		synctest.Wait()
		require.False(t, r.isReady())
		require.Equal(t, 1, r.log.count(t, rejected))
	})
}

func TestNewWatcherNeedsItsOptions(t *testing.T) {
	live, source := filter.NewLive("", false), kubefake.New()
	for _, options := range []filter.WatcherOptions{
		{Live: live, Namespace: "n", Name: "m"},
		{Source: source, Namespace: "n", Name: "m"},
		{Source: source, Live: live, Name: "m"},
		{Source: source, Live: live, Namespace: "n"},
	} {
		_, err := filter.NewWatcher(options)
		require.ErrorIs(t, err, synchronizer.ErrInvalid)
	}
	registry := prometheus.NewRegistry()
	options := filter.WatcherOptions{Source: source, Live: live, Namespace: "n", Name: "m", Registerer: registry}
	_, err := filter.NewWatcher(options)
	require.NoError(t, err)
	_, err = filter.NewWatcher(options)
	require.ErrorContains(t, err, "registering metrics")
}
