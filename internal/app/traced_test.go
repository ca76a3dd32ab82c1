// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
	"synchronizer/internal/kube/recorded"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue"
	"synchronizer/internal/telemetry/otlp/otlptest"
	"synchronizer/internal/telemetry/tracing"
)

const limit = time.Minute

// rig is a backend with the embedded queue and SQLite, and a client of it that
// watches one deployment.
type rig struct {
	backend *server.Backend
	item    recorded.Item
	log     *otlptest.Log // of the client
}

// running runs parts until the test ends.
func running(t *testing.T) func(name string, f func(context.Context) error, after func()) {
	return func(name string, f func(context.Context) error, after func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f(ctx) }()
		t.Cleanup(func() {
			cancel()
			select {
			case err := <-done:
				require.NoError(t, err, name)
			case <-time.After(limit):
				require.FailNow(t, name+" does not stop")
			}
			after()
		})
	}
}

// serve runs a backend.
func serve(t *testing.T, run func(string, func(context.Context) error, func())) *server.Backend {
	t.Helper()
	env := config.Env{}
	for key, value := range map[string]string{
		"SYNCHRONIZER_BACKEND_DATADIR": t.TempDir(), "SYNCHRONIZER_BACKEND_LISTEN": "127.0.0.1:0", "SYNCHRONIZER_API_LISTEN": "127.0.0.1:0",
		"SYNCHRONIZER_BACKEND_HEALTHPORT": "0", "SYNCHRONIZER_BACKEND_ACCESSKEYS": config.AccessKeysStore,
	} {
		env = env.With(key, value)
	}
	c, _, err := config.LoadUp(env)
	require.NoError(t, err)
	p := app.NewProcess(io.Discard)
	stop := p.StartTracing("server")
	b, err := server.Open(t.Context(), p, c)
	require.NoError(t, err)
	run("the backend", b.Run, stop)
	require.Eventually(t, func() bool { return b.Ready() == nil }, limit, time.Millisecond)
	return b
}

// start runs both until the test ends. Each is a process of its own as far as traces
// are concerned.
func start(t *testing.T) *rig {
	t.Helper()
	run := running(t)
	r := &rig{backend: serve(t, run)}
	r.item, r.log = watch(t, "ws://"+r.backend.ClientsAddress(), r.backend.Secrets.AccessKey, run)
	return r
}

// watch runs a client of a server for a cluster that has one deployment.
func watch(t *testing.T, url, accessKey string, run func(string, func(context.Context) error, func())) (item recorded.Item, log *otlptest.Log) {
	t.Helper()
	for item = range recorded.Generate(recorded.Deployments, 1, 1) { //nolint:revive // there is one
	}
	cluster, err := recorded.NewServer(recorded.GenerateSet(recorded.Deployments, 1, 1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(`{"apiVersion":"v1","kind":"Config","current-context":"x",
		"clusters":[{"name":"x","cluster":{"server":"`+cluster.URL+`"}}],"users":[{"name":"x","user":{}}],"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}]}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(fmt.Sprintf(`{"inCluster":{"serverUrl":"%s","account":"%s","accessKey":"%s",
		"clusterName":"c","healthPort":0,"resources":[{"group":"apps","version":"v1","resource":"deployments","strategy":"copy"}]}}`,
		url, server.LocalAccount, accessKey)), 0o600))
	c, _, err := config.LoadClient(config.Env{}.With("CONFIG", dir))
	require.NoError(t, err)
	t.Setenv("KS_LOGGER_LEVEL", "debug")
	log = &otlptest.Log{}
	p := app.NewProcess(log)
	stop := p.StartTracing("client")
	cl, err := client.Open(t.Context(), p, c, kube.LoadOptions{Flag: filepath.Join(dir, "kubeconfig")}, true)
	require.NoError(t, err)
	run("the client", cl.Run, stop)
	return item, log
}

// publish puts a record on In, as a service behind the queue does.
func (r *rig) publish(t *testing.T, m synchronizer.Message) {
	t.Helper()
	m.ClusterID = synchronizer.ClusterID{Account: server.LocalAccount, Cluster: "c"}
	record, err := (&queue.Encoder{Encoding: queue.Compact}).Encode(&m, queue.Extra{})
	require.NoError(t, err)
	require.NoError(t, r.backend.Queue().Publish(t.Context(), synchronizer.In, []synchronizer.Record{record}))
}

// named gives the spans of a trace with a name and a parent; an empty trace or
// parent is any.
func named(spans []otlptest.Span, trace, name, parent string) []otlptest.Span {
	var found []otlptest.Span
	for _, s := range spans {
		if (trace == "" || s.TraceID == trace) && s.Name == name && (parent == "" || s.ParentID == parent) {
			found = append(found, s)
		}
	}
	return found
}

const (
	foreignTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	foreignParent = "00-" + foreignTrace + "-00f067aa0ba902b7-01"
)

// TestOneTraceFromClientToCommit: the checksum that a client says at its start, the
// question that it makes the ingester ask and the answer to that are one trace, and
// each span is the child of what caused it. A command that another service has put
// on the queue stays in that service's trace until it is applied.
func TestOneTraceFromClientToCommit(t *testing.T) {
	collector := otlptest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	r := start(t)
	var spans []otlptest.Span
	// The way up twice: NewChecksum, and the answer to the question.
	way := func() []string {
		spans = collector.Spans()
		for _, first := range spans {
			if first.Service != "client" || first.Name != tracing.SpanSend || first.ParentID != "" {
				continue
			}
			at, path := first, []string{"client " + first.Name}
			for _, next := range []struct{ service, name, to string }{
				{"server", tracing.SpanPublish, "out"},
				{"server", tracing.SpanCommit, ""},
				{"server", tracing.SpanPublish, "in"},
				{"client", tracing.SpanSend, ""},
				{"server", tracing.SpanPublish, "out"},
				{"server", tracing.SpanCommit, ""},
			} {
				parent := at.ID
				if next.to == "in" { // the question comes from the record, as the commit does
					parent = at.ParentID
				}
				below := named(spans, first.TraceID, next.name, parent)
				found := false
				for _, s := range below {
					if s.Service == next.service && s.Attributes["messaging.destination.name"] == next.to {
						at, found = s, true
					}
				}
				if !found {
					break
				}
				path = append(path, at.Service+" "+at.Name)
			}
			if len(path) == 7 {
				return path
			}
		}
		return nil
	}
	require.Eventually(t, func() bool { return way() != nil }, limit, 10*time.Millisecond, "spans: %v", collector.Spans())
	for _, s := range spans {
		require.Empty(t, s.Error, s.Name)
	}

	r.publish(t, synchronizer.Message{
		Event: synchronizer.EventPut, Depth: 1, MsgID: "command", Kind: recorded.Deployments,
		Namespace: r.item.Namespace, Name: r.item.Name, Body: r.item.Body, TraceParent: foreignParent,
	})
	require.Eventually(t, func() bool {
		spans = collector.Spans()
		published := named(spans, foreignTrace, tracing.SpanPublish, "00f067aa0ba902b7")
		if len(published) != 1 {
			return false
		}
		for _, name := range []string{tracing.SpanHandDown, tracing.SpanApply} {
			below := named(spans, foreignTrace, name, published[0].ID)
			if len(below) == 0 || below[0].Attributes["synchronizer.name"] != r.item.Name {
				return false
			}
		}
		return true
	}, limit, 10*time.Millisecond, "log: %s", r.log)
	require.Eventually(t, func() bool {
		return strings.Contains(r.log.String(), "msg=applied") && strings.Contains(r.log.String(), "traceId="+foreignTrace)
	}, limit, time.Millisecond, "the line about a traced message names the trace")

	// What is dropped is named with its trace.
	r.publish(t, synchronizer.Message{
		Event: synchronizer.EventDelete, Depth: 1, MsgID: "other", Kind: synchronizer.Kind{Version: "v1", Resource: "pods"},
		Namespace: "n", Name: "unconfigured", TraceParent: "00-11111111111111111111111111111111-00f067aa0ba902b7-01",
	})
	require.Eventually(t, func() bool {
		for line := range strings.SplitSeq(r.log.String(), "\n") {
			if strings.Contains(line, "reason=kind_not_configured") && strings.Contains(line, `n/unconfigured"`) {
				return strings.Contains(line, " traceId=11111111111111111111111111111111")
			}
		}
		return false
	}, limit, time.Millisecond)
}

// TestStockPeersAndTraces: a server of the field gets one key more, which it ignores; a
// client of the field is served in traces that begin at the server.
func TestStockPeersAndTraces(t *testing.T) {
	collector := otlptest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	run := running(t)

	old := stock.NewServer(t)
	item, _ := watch(t, strings.Replace(old.URL, "http", "ws", 1), "k", run)
	said := old.Next().WaitFor(stock.NewChecksum, recorded.Deployments, item.Namespace, item.Name)
	require.Regexp(t, `,"traceparent":"00-[0-9a-f]{32}-[0-9a-f]{16}-01","AdditionalProperties":null}$`, string(said.Raw))

	b := serve(t, run)
	configMaps := synchronizer.Kind{Version: "v1", Resource: "configmaps"}
	stock.Connect(t, "http://"+b.ClientsAddress(), stock.ClientOptions{
		Account: server.LocalAccount, Cluster: "old", AccessKey: b.Secrets.AccessKey, Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy},
		Objects: []stock.Object{{Kind: configMaps, Namespace: "demo", Name: "one", JSON: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"demo","uid":"u"}}`}},
	})
	// It answers the question that it was asked in a trace, and that is stored.
	require.Eventually(t, func() bool {
		spans := collector.Spans()
		for _, down := range named(spans, "", tracing.SpanHandDown, "") {
			if down.Attributes["synchronizer.cluster"] == "old" && down.Attributes["synchronizer.name"] == "one" {
				return len(named(spans, down.TraceID, tracing.SpanCommit, "")) > 0
			}
		}
		return false
	}, limit, 10*time.Millisecond)
}

// TestNoTraces: without an endpoint nothing is wrapped and no frame or record has a
// traceparent of ours.
func TestNoTraces(t *testing.T) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(variable, "")
	}
	p := app.NewProcess(io.Discard)
	defer p.StartTracing("server")()
	require.Nil(t, p.Tracer)
	var q synchronizer.Queue
	require.Equal(t, q, p.Tracer.Queue(q, "embedded"))
}
