// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/link"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue"
	"synchronizer/internal/relay"
)

// with opens a backend of a configuration that change may alter, until the test
// ends.
func with(t *testing.T, change func(*config.Config)) *Backend {
	t.Helper()
	c := configuration(t, t.TempDir())
	change(c)
	b, err := Open(t.Context(), app.NewProcess(io.Discard), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// runWith runs it, too.
func runWith(t *testing.T, change func(*config.Config)) *Backend {
	t.Helper()
	b := with(t, change)
	untilTestEnds(t, b)
	return b
}

// withoutIngester lets the records stay in the queue.
func withoutIngester(c *config.Config) {
	no := false
	c.Ingester.Enabled = &no
}

// free is a port that nobody has just now, below those that outgoing connections
// take.
func free(t *testing.T) (port int) {
	t.Helper()
	for range 1000 {
		port = 15000 + rand.IntN(17000)
		if l, err := net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	require.Fail(t, "no port is free")
	return 0
}

// TestEffectOfPorts: backend.port is for clients on all interfaces, backend.listen
// wins over it.
func TestEffectOfPorts(t *testing.T) {
	port, other, health := free(t), free(t), free(t)
	portOf := func(address string) string {
		_, p, err := net.SplitHostPort(address)
		require.NoError(t, err)
		return p
	}
	b := with(t, func(c *config.Config) {
		c.Backend.Listen, c.Backend.Port, c.Backend.HealthPort = "", port, health
	})
	host, _, err := net.SplitHostPort(b.ClientsAddress())
	require.NoError(t, err)
	require.True(t, net.ParseIP(host).IsUnspecified(), host)
	require.Equal(t, strconv.Itoa(port), portOf(b.ClientsAddress()))
	require.Equal(t, strconv.Itoa(health), portOf(b.HealthAddress()))
	require.NoError(t, b.Close())

	b = with(t, func(c *config.Config) {
		c.Backend.Listen, c.Backend.Port = fmt.Sprintf("127.0.0.1:%d", other), port
	})
	require.Equal(t, fmt.Sprintf("127.0.0.1:%d", other), b.ClientsAddress())
	require.NotEqual(t, strconv.Itoa(health), portOf(b.HealthAddress()))
}

// TestEffectOfFolders: backend.dataDir holds the queue and the database, unless they
// are told to be elsewhere.
func TestEffectOfFolders(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	with(t, func(c *config.Config) { c.Backend.DataDir = dir })
	require.DirExists(t, filepath.Join(dir, "queue"))
	require.FileExists(t, filepath.Join(dir, "synchronizer.db"))
	require.FileExists(t, TokenFile(dir))

	dir = t.TempDir()
	with(t, func(c *config.Config) { c.Backend.DataDir, c.Backend.MessageQueue.Embedded.Path = dir, elsewhere })
	require.NoDirExists(t, filepath.Join(dir, "queue"))
	require.DirExists(t, elsewhere)
}

// TestEffectOfServiceDiscovery: the further addresses that clients are told.
func TestEffectOfServiceDiscovery(t *testing.T) {
	for _, told := range []bool{false, true} {
		b := runWith(t, func(c *config.Config) {
			if told {
				c.Backend.ServiceDiscovery = config.ServiceDiscovery{
					EventReceiverHTTP: "event-receiver-http", EventReceiverWS: "event-receiver-ws", Gateway: "gateway",
					APIServer: "api-server", Metrics: "metrics", Storage: "storage",
				}
			}
		})
		seen := map[string]bool{}
		for _, version := range []string{"v2", "v3"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.ClientsAddress()+"/api/"+version+"/servicediscovery", http.NoBody)
			require.NoError(t, err)
			response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
			require.NoError(t, err)
			var answer struct{ Response map[string]string }
			require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
			require.NoError(t, response.Body.Close())
			for name, address := range answer.Response {
				if name == "synchronizer" {
					continue
				}
				seen[name] = true
				want := ""
				if told {
					want = name
				}
				require.Equal(t, want, address, "%s %s", version, name)
			}
		}
		require.Len(t, seen, 6)
	}
}

// TestEffectOfAccessKeys: with keys in the store a client needs one; without, a
// server that only this machine reaches lets everybody in.
func TestEffectOfAccessKeys(t *testing.T) {
	for keys, want := range map[string]error{config.AccessKeysStore: synchronizer.ErrUnauthorized, "": nil} {
		b := runWith(t, func(c *config.Config) { c.Backend.AccessKeys = keys })
		d := &link.Dialer{URL: b.ClientsURL(), AccessKey: "any", Hello: synchronizer.Hello{ClusterID: synchronizer.ClusterID{Account: LocalAccount, Cluster: "c"}}}
		l, err := d.Dial(t.Context())
		require.ErrorIs(t, err, want, "accessKeys %q", keys)
		if err == nil {
			require.NoError(t, l.Close(1000, ""))
		}
	}
}

// TestEffectOfClientBacklog: what may wait for a client that does not read.
func TestEffectOfClientBacklog(t *testing.T) {
	const messages, size = 120, 200 << 10 // more than the network holds
	for backlog, lost := range map[int64]bool{1 << 20: true, 64 << 20: false} {
		b := runWith(t, func(c *config.Config) { c.Backend.ClientBacklogBytes = backlog })
		c := stock.Connect(t, "http://"+b.ClientsAddress(), stock.ClientOptions{
			Account: LocalAccount, Cluster: "slow", AccessKey: b.Secrets.AccessKey, HoldReading: true,
		})
		require.Eventually(t, func() bool { return value(t, b, "synchronizer_connected_clients_count", "") == 1 }, limit, time.Millisecond)
		encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
		body := []byte(`"` + strings.Repeat("x", size) + `"`)
		for i := range messages {
			m := synchronizer.Message{
				Event: synchronizer.EventPut, Kind: configMaps, Namespace: "demo", Name: strconv.Itoa(i), MsgID: strconv.Itoa(i), Depth: 1,
				ClusterID: synchronizer.ClusterID{Account: LocalAccount, Cluster: "slow"}, Body: body,
			}
			r, err := encoder.Encode(&m, queue.Extra{})
			require.NoError(t, err)
			require.NoError(t, b.Queue().Publish(t.Context(), synchronizer.In, []synchronizer.Record{r}))
		}
		dropped := func() float64 { return value(t, b, "synchronizer_drops_total", string(synchronizer.DropBacklog)) }
		require.Eventually(t, func() bool {
			return value(t, b, "synchronizer_relay_downward_records_total", "accepted")+dropped() == messages
		}, limit, time.Millisecond)
		require.Equal(t, lost, dropped() > 0, "%d", backlog)
		c.Close()
	}
}

// TestEffectOfConsumerWorkers: what the relay does with it shows a test there.
func TestEffectOfConsumerWorkers(t *testing.T) {
	for file, want := range map[string]int{
		`{"backend":{"allowAnonymous":true}}`: 10, `{"backend":{"allowAnonymous":true,"consumerWorkers":3}}`: 3,
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(file), 0o600))
		c, _, err := config.LoadUp(config.Env{}.With("CONFIG", dir))
		require.NoError(t, err)
		var o relay.Options
		handing(&c.Backend, &o)
		require.Equal(t, want, o.Workers)
	}
}

// TestEffectOfEncoding: the form of the records on the queue.
func TestEffectOfEncoding(t *testing.T) {
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"demo","uid":"u"}}`
	object := stock.Object{Kind: configMaps, Namespace: "demo", Name: "one", JSON: body}
	for encoding, raw := range map[string]bool{"": true, "compact": true, "field": false} {
		b := runWith(t, func(c *config.Config) {
			withoutIngester(c)
			c.Backend.MessageQueue.Encoding = encoding
		})
		client := stock.Connect(t, "http://"+b.ClientsAddress(), stock.ClientOptions{
			Account: LocalAccount, Cluster: "c", AccessKey: b.Secrets.AccessKey, Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy},
		})
		client.Set(object) // new: a checksum
		client.Set(object) // a change: the object
		consumer, err := b.Queue().Consume(t.Context(), "test")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		found := false
		for !found {
			batch, err := consumer.Next(ctx, 10, 1<<20)
			require.NoError(t, err)
			for i := range batch.Records {
				r := &batch.Records[i]
				if r.Property(queue.PropertyEvent) == synchronizer.EventPut.String() {
					found = true
					require.Equal(t, raw, string(r.Payload) == body, "%q: %s", encoding, r.Payload)
				}
			}
		}
		cancel()
		require.NoError(t, consumer.Close())
		client.Close()
	}
}

// TestEffectOfQueueLimits: how much the embedded queue keeps that nobody takes, and
// for how long.
func TestEffectOfQueueLimits(t *testing.T) {
	publish := func(b *Backend, n int) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		records := make([]synchronizer.Record, n)
		for i := range records {
			records[i] = synchronizer.Record{Key: "a/c", Payload: make([]byte, 64<<10)}
		}
		return b.Queue().Publish(ctx, synchronizer.Out, records)
	}
	waits := func(b *Backend, group string) bool {
		consumer, err := b.Queue().Consume(t.Context(), group)
		require.NoError(t, err)
		defer func() { require.NoError(t, consumer.Close()) }()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err = consumer.Next(ctx, 1, 1<<20)
		return err == nil
	}
	b := with(t, withoutIngester)
	require.NoError(t, publish(b, 100))
	require.True(t, waits(b, "g"))
	c := configuration(t, t.TempDir())
	c.Backend.MessageQueue.Embedded.MaxBytes = 4 << 20
	_, err := Open(t.Context(), app.NewProcess(io.Discard), c)
	require.ErrorContains(t, err, "queue of 4194304 bytes is too small")
	b = with(t, func(c *config.Config) {
		withoutIngester(c)
		c.Backend.MessageQueue.Embedded.MaxAge = config.Duration(300 * time.Millisecond)
	})
	require.NoError(t, publish(b, 1))
	groups := 0
	require.Eventually(t, func() bool {
		groups++
		return !waits(b, fmt.Sprint("g", groups))
	}, limit, 10*time.Millisecond, "it is forgotten")
}

// value sums a metric, of the series that have a label of this value if one is given.
func value(t *testing.T, b *Backend, name, label string) float64 {
	t.Helper()
	families, err := prometheus.Gatherers{b.process.Registry}.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			matches := label == ""
			for _, l := range m.GetLabel() {
				matches = matches || l.GetValue() == label
			}
			if matches {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
