// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/queue"
	"synchronizer/internal/relay"
)

// TestB030SecondsReachTheRelay: each value of the file as the delay that the relay
// gets, which is 0 where it must be off.
func TestB030SecondsReachTheRelay(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"-1": 0, "0": 0, "1": time.Second, "7600000000": 7_600_000_000 * time.Second,
		"7700000000": 0, "9223372037": 0, "9223372036854775807": 0,
	} {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "config.json"),
			fmt.Appendf(nil, `{"backend":{"listen":"127.0.0.1:0","reconciliationTaskConfig":{"reconcileAfterConnectSeconds":%s}}}`, text), 0o600))
		var variables config.Env
		c, _, err := config.LoadServer(variables.With("CONFIG", folder))
		require.NoError(t, err, text)
		var o relay.Options
		schedules(&c.Backend, &o)
		require.Equal(t, relay.Options{ReconcileAfter: want}, o, text)
	}
}

func TestSchedules(t *testing.T) {
	b := &config.Backend{
		KeepAliveTask: config.KeepAliveTask{TaskIntervalSeconds: 7},
		ReconciliationTask: config.ReconciliationTask{
			CronSchedule: "0 * * * *", TaskIntervalSeconds: 60, IntervalFromConnectionSeconds: 600, SendBatch: true,
		},
	}
	var o relay.Options
	schedules(b, &o)
	require.Equal(t, 7*time.Second, o.KeepAlive)
	require.Equal(t, time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC), o.Periodic.Cron.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	o.Periodic.Cron = nil
	require.Equal(t, relay.Periodic{Every: time.Minute, MinAge: 10 * time.Minute, Batch: true}, o.Periodic)
	b.ReconciliationTask.CronSchedule = "cannot be read"
	schedules(b, &o)
	require.Equal(t, relay.Periodic{Every: time.Minute, MinAge: 10 * time.Minute, Batch: true}, o.Periodic, "the interval holds")
}

// published reads the records to the backend until one is as wanted.
func published(t *testing.T, b *Backend, what string, wanted func(r *synchronizer.Record) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	consumer, err := b.Queue().Consume(ctx, "test")
	require.NoError(t, err)
	defer func() { require.NoError(t, consumer.Close()) }()
	for {
		batch, err := consumer.Next(ctx, 10, 1<<20)
		require.NoError(t, err, what)
		for i := range batch.Records {
			if wanted(&batch.Records[i]) {
				return
			}
		}
	}
}

// TestSchedulesAtWork: what the server publishes by itself.
func TestSchedulesAtWork(t *testing.T) {
	for event, change := range map[string]func(*config.Backend){
		"ConnectedClients": func(b *config.Backend) { b.KeepAliveTask.TaskIntervalSeconds = 1 },
		"ReconciliationRequest": func(b *config.Backend) {
			b.ReconciliationTask = config.ReconciliationTask{TaskIntervalSeconds: 1, IntervalFromConnectionSeconds: 1}
		},
		"ReconciliationRequestBatch": func(b *config.Backend) {
			b.ReconciliationTask = config.ReconciliationTask{CronSchedule: "* * * * * *", IntervalFromConnectionSeconds: 1, SendBatch: true}
		},
	} {
		b := runWith(t, func(c *config.Config) {
			withoutIngester(c)
			change(&c.Backend)
		})
		ws := dial(t, b)
		published(t, b, event, func(r *synchronizer.Record) bool {
			return r.Property(queue.PropertyEvent) == event && (event == "ReconciliationRequest" || r.Property(queue.PropertyAccount) == "")
		})
		require.NoError(t, ws.CloseNow())
	}
}

// alertOf is a report of a runtime alert, as a frame.
func alertOf(name, body string) []byte {
	return fmt.Appendf(nil, `{"Depth":1,"Event":6,"Kind":{"Group":"kubescape.io","Version":"v1","Resource":"runtimealerts","AdditionalProperties":null},"MsgId":"m","Name":%q,"Namespace":"kubescape","ResourceVersion":0,"Checksum":"","Object":%q,"AdditionalProperties":null}`, name, body)
}

// TestGatesAtWork: alerts of an account that is skipped, of one whose feature comes
// and goes, and objects that are too large.
func TestGatesAtWork(t *testing.T) {
	var features atomic.Value
	features.Store(`[]`)
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/check/api/v1/features" {
			_, _ = io.WriteString(w, `{"features":`+features.Load().(string)+`}`)
		}
	}))
	defer auth.Close()
	c := configuration(t, t.TempDir())
	withoutIngester(c)
	c.Backend.AccessKeys = ""
	c.Backend.AuthenticationServer.URL = auth.URL + "/check"
	c.Backend.FeaturesProvider = config.FeaturesProvider{FeatureFlagName: "alerts", RefreshIntervalSeconds: 1}
	c.Backend.SkipAlertsFrom = []string{"skipped"}
	c.Process.MaxObjectSize = 100
	process := app.NewProcess(io.Discard)
	b, err := Open(t.Context(), process, c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	defer func() {
		cancel()
		require.NoError(t, <-done)
	}()
	require.Eventually(t, func() bool { return b.Ready() == nil }, limit, time.Millisecond)
	connect := func(account string) *websocket.Conn {
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		ws, _, err := websocket.Dial(t.Context(), "ws://"+b.ClientsAddress(), &websocket.DialOptions{
			HTTPClient: &http.Client{Transport: transport}, HTTPHeader: http.Header{"X-Api-Account": {account}, "X-Api-Cluster": {"c"}, "X-Api-Key": {"key"}},
		})
		require.NoError(t, err)
		return ws
	}
	send := func(ws *websocket.Conn, frame []byte) {
		require.NoError(t, ws.Write(t.Context(), websocket.MessageBinary, frame))
	}
	dropped := func(reason synchronizer.DropReason) int64 { return process.Drops.Counts()[reason] }

	skipped := connect("skipped")
	send(skipped, alertOf("skipped", "{}"))
	require.Eventually(t, func() bool { return dropped(synchronizer.DropAlertsSkipped) == 1 }, limit, time.Millisecond)
	send(skipped, fmt.Appendf(nil, `{"Depth":1,"Event":6,"Kind":{"Group":"","Version":"v1","Resource":"configmaps","AdditionalProperties":null},"MsgId":"m","Name":"large","Namespace":"demo","Object":"%0101d"}`, 0))
	require.Eventually(t, func() bool { return dropped(synchronizer.DropTooLarge) == 1 }, limit, time.Millisecond)

	gated := connect("gated")
	require.Eventually(t, func() bool { // the answer must have come
		send(gated, alertOf("before", "{}"))
		return dropped(synchronizer.DropNoFeature) > 0
	}, limit, 10*time.Millisecond)
	features.Store(`["alerts"]`)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // until the next answer has come
		defer close(stopped)
		for {
			select {
			case <-time.After(50 * time.Millisecond):
				if gated.Write(ctx, websocket.MessageBinary, alertOf("after", "{}")) != nil {
					return
				}
			case <-stop:
				return
			}
		}
	}()
	published(t, b, "an alert with the feature", func(r *synchronizer.Record) bool {
		require.NotContains(t, []string{"skipped", "large"}, r.Property("name"))
		return r.Property("name") == "after"
	})
	close(stop)
	<-stopped
	require.NoError(t, skipped.CloseNow())
	require.NoError(t, gated.CloseNow())
}
