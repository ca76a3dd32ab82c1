// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/config"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue"
)

// heard are the events on the queue from clusters to backend.
type heard struct {
	mu     sync.Mutex
	counts map[string]int // by event; with a star if it is of no cluster
}

func (h *heard) of(event string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[event]
}

// hear reads what a backend without ingester publishes, until the test ends.
func hear(t *testing.T, b *Backend) *heard {
	t.Helper()
	h := &heard{counts: map[string]int{}}
	consumer, err := b.Queue().Consume(t.Context(), "test")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			batch, err := consumer.Next(ctx, 10, 1<<20)
			if err != nil {
				return
			}
			h.mu.Lock()
			for i := range batch.Records {
				event := batch.Records[i].Property(queue.PropertyEvent)
				if batch.Records[i].Property(queue.PropertyCluster) == "" {
					event += "*"
				}
				h.counts[event]++
			}
			h.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
		require.NoError(t, consumer.Close())
	})
	return h
}

// TestEffectOfSchedules: what the server does by itself, and that it does not
// without the keys. When exactly, internal/relay tests with a clock of its own.
func TestEffectOfSchedules(t *testing.T) {
	const request = "ReconciliationRequest"
	for name, test := range map[string]struct {
		change func(*config.Backend)
		want   string // "": nothing
	}{
		"nothing":           {func(*config.Backend) {}, ""},
		"no age":            {func(b *config.Backend) { b.ReconciliationTask.TaskIntervalSeconds = 1 }, ""},
		"keepAlive":         {func(b *config.Backend) { b.KeepAliveTask.TaskIntervalSeconds = 1 }, "ConnectedClients*"},
		"after the connect": {func(b *config.Backend) { b.ReconciliationTask.ReconcileAfterConnectSeconds = 1 }, request},
		"interval": {func(b *config.Backend) {
			b.ReconciliationTask.TaskIntervalSeconds, b.ReconciliationTask.IntervalFromConnectionSeconds = 1, 1
		}, request},
		"cron": {func(b *config.Backend) {
			b.ReconciliationTask.CronSchedule, b.ReconciliationTask.IntervalFromConnectionSeconds = "* * * * * *", 1
		}, request},
		"batch": {func(b *config.Backend) {
			b.ReconciliationTask.TaskIntervalSeconds, b.ReconciliationTask.IntervalFromConnectionSeconds = 1, 1
			b.ReconciliationTask.SendBatch = true
		}, request + "Batch*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := runWith(t, func(c *config.Config) {
				withoutIngester(c)
				c.Backend.ReconciliationTask, c.Backend.KeepAliveTask = config.ReconciliationTask{}, config.KeepAliveTask{}
				test.change(&c.Backend)
			})
			h := hear(t, b)
			stock.Connect(t, "http://"+b.ClientsAddress(), stock.ClientOptions{Account: LocalAccount, Cluster: "c", AccessKey: b.Secrets.AccessKey})
			all := []string{request, request + "Batch*", "ConnectedClients*"}
			if test.want == "" {
				require.Never(t, func() bool { return h.of(all[0])+h.of(all[1])+h.of(all[2]) > 0 }, 3*time.Second, 50*time.Millisecond)
				return
			}
			require.Eventually(t, func() bool { return h.of(test.want) > 0 }, limit, 10*time.Millisecond)
			for _, other := range all {
				if other != test.want {
					require.Zero(t, h.of(other), other)
				}
			}
		})
	}
}

// TestEffectOfMetricsPort: a port of its own for metrics, and none without.
func TestEffectOfMetricsPort(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		port := free(t)
		runWith(t, func(c *config.Config) {
			c.Backend.PrometheusConfig = config.PrometheusConfig{Enabled: enabled, Port: port}
		})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+"/metrics", http.NoBody)
		require.NoError(t, err)
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if !enabled {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Contains(t, string(text), "synchronizer_connected_clients_count")
	}
}

// TestEffectOfAlertGates: runtime alerts of an account that is skipped, and of one
// that does not have the feature, are not carried; the feature is asked for again.
func TestEffectOfAlertGates(t *testing.T) {
	var asked atomic.Int64
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/features") {
			asked.Add(1)
			_, _ = io.WriteString(w, `{"features":["other"]}`)
		}
	}))
	defer auth.Close()
	authenticated := func(c *config.Config) {
		c.Backend.AccessKeys = ""
		c.Backend.AuthenticationServer.URL = auth.URL
		c.Backend.AuthenticationServer.HeaderToHeaderMapping = map[string]string{"X-API-KEY": "X-API-KEY"}
	}
	alerts := synchronizer.Kind{Group: "kubescape.io", Version: "v1", Resource: "runtimealerts"}
	for name, test := range map[string]struct {
		change func(*config.Config)
		reason synchronizer.DropReason // "": carried
		again  bool                    // the authentication server is asked again
	}{
		"no gate": {authenticated, "", false},
		"skipped": {func(c *config.Config) {
			authenticated(c)
			c.Backend.SkipAlertsFrom = []string{"acme"}
		}, synchronizer.DropAlertsSkipped, false},
		"of another account": {func(c *config.Config) {
			authenticated(c)
			c.Backend.SkipAlertsFrom = []string{"another"}
		}, "", false},
		"without the feature": {func(c *config.Config) {
			authenticated(c)
			c.Backend.FeaturesProvider = config.FeaturesProvider{FeatureFlagName: "alerts", RefreshIntervalSeconds: 1}
		}, synchronizer.DropNoFeature, true},
		"with the feature": {func(c *config.Config) {
			authenticated(c)
			c.Backend.FeaturesProvider = config.FeaturesProvider{FeatureFlagName: "other", RefreshIntervalSeconds: 3600}
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := runWith(t, func(c *config.Config) {
				withoutIngester(c)
				test.change(c)
			})
			h := hear(t, b)
			before := asked.Load()
			c := stock.Connect(t, "http://"+b.ClientsAddress(), stock.ClientOptions{Account: "acme", Cluster: "c", Kinds: map[synchronizer.Kind]stock.Strategy{alerts: stock.Copy, configMaps: stock.Copy}})
			if b.config.Backend.FeaturesProvider.FeatureFlagName != "" {
				require.Eventually(t, func() bool { return asked.Load() > before }, limit, time.Millisecond)
			}
			if test.again {
				require.Eventually(t, func() bool { return asked.Load() > before+1 }, limit, time.Millisecond)
			}
			c.Set(stock.Object{Kind: alerts, Namespace: "demo", Name: "alert", JSON: "{}"})
			c.Set(stock.Object{Kind: configMaps, Namespace: "demo", Name: "behind", JSON: "{}"})
			want := 2
			if test.reason != "" {
				want = 1
				require.Eventually(t, func() bool { return value(t, b, "synchronizer_drops_total", string(test.reason)) == 1 }, limit, time.Millisecond)
			}
			require.Eventually(t, func() bool { return h.of(synchronizer.EventVerify.String()) == want }, limit, time.Millisecond)
			c.Close()
		})
	}
}

// TestEffectOfReplay: five questions while the client is away; which of them it is
// asked when it comes.
func TestEffectOfReplay(t *testing.T) {
	const records = "synchronizer_relay_downward_records_total"
	for name, test := range map[string]struct {
		change  func(*config.Replay)
		want    []string
		reason  synchronizer.DropReason
		dropped float64
	}{
		"off":     {func(r *config.Replay) { r.Enabled = false }, nil, "", 0},
		"on":      {func(*config.Replay) {}, []string{"0", "1", "2", "3", "4"}, "", 0},
		"in all":  {func(r *config.Replay) { r.MaxMessages = 2 }, []string{"3", "4"}, synchronizer.DropReplayCapacity, 3},
		"of each": {func(r *config.Replay) { r.MaxMessagesPerClient = 3 }, []string{"2", "3", "4"}, synchronizer.DropReplayCapacity, 2},
		"bytes":   {func(r *config.Replay) { r.MaxBytes = 10 }, nil, synchronizer.DropReplayTooLarge, 5},
		"time":    {func(r *config.Replay) { r.TTLSeconds = 1 }, nil, synchronizer.DropReplayExpired, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := runWith(t, func(c *config.Config) {
				withoutIngester(c)
				c.Backend.Replay.Enabled = true
				test.change(&c.Backend.Replay)
			})
			encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
			ask := func(object string) {
				m := synchronizer.Message{
					Event: synchronizer.EventGet, Depth: 1, MsgID: object, Kind: configMaps, Namespace: "demo", Name: object,
					ClusterID: synchronizer.ClusterID{Account: LocalAccount, Cluster: "c"},
				}
				r, err := encoder.Encode(&m, queue.Extra{})
				require.NoError(t, err)
				require.NoError(t, b.Queue().Publish(t.Context(), synchronizer.In, []synchronizer.Record{r}))
			}
			for i := range 5 {
				ask(strconv.Itoa(i))
			}
			dropped := func() float64 {
				if test.reason == "" {
					return 0
				}
				return value(t, b, "synchronizer_drops_total", string(test.reason))
			}
			require.Eventually(t, func() bool {
				return value(t, b, records, "not_connected_here")+value(t, b, records, "retained")+dropped() >= 5 && dropped() == test.dropped
			}, limit, time.Millisecond)
			c := stock.Connect(t, "http://"+b.ClientsAddress(), stock.ClientOptions{
				Account: LocalAccount, Cluster: "c", AccessKey: b.Secrets.AccessKey, Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy},
			})
			require.Eventually(t, func() bool {
				return value(t, b, "synchronizer_connected_clients_count", "") == 1 && value(t, b, records, "replayed") == float64(len(test.want))
			}, limit, time.Millisecond)
			// What comes before the client's first frame was handled is kept, too.
			require.Eventually(t, func() bool {
				ask("live")
				return slices.ContainsFunc(c.Received(), func(f stock.Frame) bool { return f.Name == "live" })
			}, limit, 20*time.Millisecond)
			var got []string
			for _, f := range c.Received() {
				if f.Name != "live" {
					got = append(got, f.Name)
				}
			}
			require.Equal(t, test.want, got)
			c.Close()
		})
	}
}
