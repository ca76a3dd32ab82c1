// SPDX-License-Identifier: Apache-2.0

package link_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link"
	"synchronizer/internal/link/linktest"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/queuetest/memory"
	"synchronizer/internal/relay"
)

// pingFrame is a masked binary frame with a Ping, as a client sends it.
var pingFrame = func() []byte {
	body := `{"Depth":0,"Event":7,"Kind":null,"MsgId":"0e6f0bd5-5a32-4e9c-8d4c-6a7e6f0d5b11","AdditionalProperties":null}`
	return append([]byte{0x82, 0x80 | byte(len(body)), 0, 0, 0, 0}, body...) // a mask of zeros changes nothing
}()

// discarding is a queue that keeps nothing of what is published.
type discarding struct{ synchronizer.Queue }

func (discarding) Publish(context.Context, synchronizer.Direction, []synchronizer.Record) error {
	return nil
}

// idle connects as cheaply as can be, says Ping, and leaves the connection alone.
func idle(b *testing.B, address string, n int, headers string) net.Conn {
	c, err := net.Dial("tcp", address)
	require.NoError(b, err)
	_, err = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: zrriNP9ApfGOoUH5JJ1E7w==\r\nSec-WebSocket-Version: 13\r\n"+
		"X-API-KEY: key\r\nX-API-ACCOUNT: 11111111-2222-4333-8444-555555555555\r\nX-API-CLUSTER: cluster-%d\r\nX-SYNCHRONIZER-VERSION: v0.0.140\r\nX-HELM-VERSION: v1.30.0\r\nX-GIT-VERSION: v1.36.3\r\nX-CLOUD-PROVIDER: aws\r\n%s\r\n", n, headers)
	require.NoError(b, err)
	answer, err := http.ReadResponse(bufio.NewReaderSize(c, 512), nil)
	require.NoError(b, err)
	require.Equal(b, http.StatusSwitchingProtocols, answer.StatusCode)
	_, err = c.Write(pingFrame)
	require.NoError(b, err)
	return c
}

// BenchmarkIdleLinks measures what a connected client that only says Ping costs the
// server: bytes of heap and of stacks, and goroutines. The client's side, which is
// in the same process, costs about half a KiB and no goroutine.
//
//	go test -run '^$' -bench IdleLinks -benchtime 1x ./internal/link
func BenchmarkIdleLinks(b *testing.B) {
	const links = 2000
	type rig struct {
		handler http.Handler
		headers string      // of the upgrade requests
		heard   func() bool // all have said Ping
	}
	starts := map[string]func(b *testing.B) rig{
		"link": func(*testing.B) rig {
			var in atomic.Int64
			return rig{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				hello, _, err := link.ParseHello(r, link.ExtraHeaders{})
				if err != nil {
					return
				}
				l, err := link.Accept(w, r, link.Options{Hello: hello})
				if err != nil {
					return
				}
				in.Add(1)
				go func() {
					_, _ = l.Receive(b.Context())
					_ = l.Close(1000, "")
				}()
			}), heard: func() bool { return in.Load() == links }}
		},
		"relay": func(b *testing.B) rig {
			reg := prometheus.NewRegistry()
			s := relay.New(relay.Options{
				Queue: discarding{(&memory.Broker{}).Open()}, QueueName: "none", Encoding: queue.Compact, Authenticator: relay.Anonymous{},
				ServerName: "bench", UpwardBytes: 4 << 20, BacklogBytes: 16 << 20,
				Logger: slog.New(slog.DiscardHandler), Registerer: reg, Drop: func(synchronizer.DropReason, string) {},
			})
			go func() { _ = s.Run(b.Context()) }()
			require.Eventually(b, func() bool { return s.Ready() == nil }, linktest.Limit, time.Millisecond)
			return rig{handler: s, heard: func() bool { return gauge(reg, "synchronizer_connected_clients_count") == links }}
		},
	}
	starts["relay that sends Pings"] = func(b *testing.B) rig {
		r := starts["relay"](b)
		r.headers = "X-SYNCHRONIZER-PING: 50s\r\n"
		return r
	}
	for name, start := range starts {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := start(b)
				server := httptest.NewServer(r.handler)
				before, goroutines := collected(), runtime.NumGoroutine()
				conns := make([]net.Conn, links)
				for i := range conns {
					conns[i] = idle(b, server.Listener.Addr().String(), i, r.headers)
				}
				require.Eventually(b, r.heard, linktest.Limit, time.Millisecond)
				<-time.After(3 * time.Second) // who has just said something is waited for otherwise
				after := collected()
				b.ReportMetric(float64(after.HeapInuse-before.HeapInuse)/links, "heap-B/link")
				b.ReportMetric(float64(after.StackInuse-before.StackInuse)/links, "stack-B/link")
				b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/links, "goroutines/link")
				if path := os.Getenv("IDLE_PROFILE"); path != "" {
					file, err := os.Create(path + strings.ReplaceAll(b.Name(), "/", "-"))
					require.NoError(b, err)
					require.NoError(b, pprof.Lookup("heap").WriteTo(file, 0))
					require.NoError(b, file.Close())
				}
				for _, c := range conns {
					require.NoError(b, c.Close())
				}
				server.Close()
			}
		})
	}
}

func collected() runtime.MemStats {
	var m runtime.MemStats
	for range 3 { // what finalizers and pools hold goes with the second
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m
}

func gauge(reg *prometheus.Registry, name string) float64 {
	families, err := reg.Gather()
	if err != nil {
		return -1
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
