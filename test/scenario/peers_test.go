// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	agentpkg "synchronizer/internal/agent"
	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
	"synchronizer/internal/filter"
	"synchronizer/internal/intake"
	"synchronizer/internal/kube"
	"synchronizer/internal/link"
	"synchronizer/internal/policy"
	"synchronizer/internal/queue"
	"synchronizer/internal/relay"
	"synchronizer/test/kubetest"
)

// quick are the limits of a link, a thirtieth of what is usual: no less, or a machine
// that is busy would end connections that nobody has cut.
var quick = link.Limits{PingInterval: time.Second, WriteTimeout: 3 * time.Second, UnackedTimeout: 3 * time.Second}

// quickPair is a client and a server with quick limits and a network between them
// that a test breaks. Behind the server is the queue of a backend.
type quickPair struct {
	*world
	backend  *backend
	agent    *agentpkg.Agent
	endpoint *intake.Endpoint
	client   *prometheus.Registry
	server   *prometheus.Registry
	before   float64 // reconciled, when it last worked
}

// startQuick starts both; the server is at the listener, and the client connects
// to address. A mute server ignores, like one of the field, that the client asks
// for Pings.
func startQuick(t *testing.T, listener net.Listener, address string, mute bool) *quickPair {
	t.Helper()
	p := &quickPair{world: newWorld(t, shared, configMaps, deployments), backend: startBackend(t, t.TempDir(), nil)}
	near := app.NewProcess(newLog(t, "quick server"))
	p.server = near.Registry
	made := relay.New(relay.Options{
		Queue: p.backend.queue, QueueName: "embedded", Encoding: queue.Compact, Authenticator: relay.Anonymous{},
		Link: link.Options{Limits: quick, Drop: near.Drops.Drop}, ServerName: "quick", UpwardBytes: 4 << 20, BacklogBytes: 16 << 20,
		ReconcileAfter: 500 * time.Millisecond, Logger: near.Logger, Registerer: near.Registry, Drop: near.Drops.Drop,
	})
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mute {
			r.Header.Del("X-Synchronizer-Ping")
		}
		made.ServeHTTP(w, r)
	})}
	background(t, "listener", func(ctx context.Context) error {
		context.AfterFunc(ctx, func() { _ = web.Close() })
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	background(t, "quick server", made.Run)
	eventually(t, "the server is ready", func() bool { return made.Ready() == nil })

	far := app.NewProcess(newLog(t, "quick client"))
	p.client = far.Registry
	cluster, err := kube.New(kube.Options{Config: p.cluster.RESTConfig(), Logger: far.Logger})
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	frames, err := link.NewMetrics(far.Registry)
	require.NoError(t, err)
	options := agentpkg.Options{
		Cluster: cluster,
		Dialer: &link.Dialer{
			URL: "ws://" + address, AccessKey: "any", Limits: quick, Drop: far.Drops.Drop, Metrics: frames,
			Hello: synchronizer.Hello{
				ClusterID:           synchronizer.ClusterID{Account: server.LocalAccount, Cluster: p.name},
				SynchronizerVersion: synchronizer.Version,
			},
		},
		Filter: filter.New(filter.Rules{IncludeNamespaces: []string{p.namespace}}), Policy: policy.New(policy.LinkV1),
		Drop: far.Drops.Drop, Clock: fastClock{epoch: time.Now()}, Logger: far.Logger, Registerer: far.Registry,
	}
	for _, kind := range p.kinds {
		options.Kinds = append(options.Kinds, agentpkg.KindConfig{Kind: kind, Strategy: agentpkg.StrategyPatch})
	}
	p.agent, err = agentpkg.New(options)
	require.NoError(t, err)
	p.endpoint, err = intake.New(intake.Options{
		Resources: []intake.Resource{{Kind: synchronizer.Kind{Group: "kubescape.io", Version: "v1", Resource: "runtimealerts"}}},
		Outlet:    p.agent, Auth: intake.Auth{Disabled: true},
	})
	require.NoError(t, err)
	background(t, "quick client", p.agent.Run)
	return p
}

// live is how many clients the server believes to be connected.
func (p *quickPair) live() float64 {
	return counter(p.server, "synchronizer_connected_clients_count", nil)
}

// post is what the HTTP endpoint of the client answers to an alert.
func (p *quickPair) post() (int, string) {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(p.t.Context(), http.MethodPost, "/apis/v1/kubescape.io/v1/runtimealerts",
		strings.NewReader(`{"kind":"runtimealerts","apiVersion":"kubescape.io/v1","metadata":{"name":"a","namespace":"n"}}`))
	p.endpoint.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Retry-After")
}

// works waits until the client is connected, and everything is stored.
func (p *quickPair) works() {
	p.t.Helper()
	eventually(p.t, "both ends are connected", func() bool { return p.agent.Connected() && p.live() == 1 })
	status, _ := p.post()
	require.Equal(p.t, http.StatusAccepted, status)
	p.agree(p.backend)
	eventually(p.t, "the client is reconciled", func() bool { return p.reconciled() > p.before })
	p.before = p.reconciled()
	p.agree(p.backend)
}

// reconciled is how many lists of what is stored the client has got.
func (p *quickPair) reconciled() float64 {
	return counter(p.client, "synchronizer_link_frames_total", map[string]string{"direction": "received", "event": "Batch"})
}

// serverNotices waits until the server has given the client up.
func (p *quickPair) serverNotices() {
	p.t.Helper()
	eventually(p.t, "the server has given the client up", func() bool { return p.live() == 0 })
}

// clientNotices waits until the client knows, and looks how the endpoint answers.
func (p *quickPair) clientNotices() {
	p.t.Helper()
	eventually(p.t, "the client knows", func() bool { return !p.agent.Connected() })
	status, after := p.post()
	require.Equal(p.t, http.StatusTooManyRequests, status)
	require.Equal(p.t, "60", after)
}

// meanwhile changes what the store has to have afterwards.
func (p *quickPair) meanwhile(name string) {
	p.t.Helper()
	p.create(configMaps, name)
	p.change(deployments, "web")
	p.delete(configMaps, "first")
	p.create(configMaps, "first")
}

// Case B036 where a path between two machines breaks, so that neither end gets a
// packet of the other, or only one does. What TCP acknowledges is lost too, hence
// both ends notice whatever the direction: the server because no Ping comes for two
// intervals, the client because nobody confirms its Ping. The server is one that sends
// none, so that it is TCP which tells the client.
func TestB036HalfOpenPath(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	far := newNetwork(t)
	p := startQuick(t, far.listening, far.listening.Addr().String(), true)
	p.create(deployments, "web")
	p.create(configMaps, "first")
	p.works()
	for _, fault := range []struct {
		name string
		is   func()
	}{
		{"both directions", func() { far.lose(true, true) }},
		{"only server to client", func() { far.lose(false, true) }},
		{"only client to server", func() { far.lose(true, false) }},
		{"cable pulled", far.pull},
	} {
		t.Run(fault.name, func(t *testing.T) {
			fault.is()
			defer p.works() // the client reconnects, and says what has changed
			defer far.repair()
			p.meanwhile("during-" + unfit.ReplaceAllString(fault.name, "-"))
			p.serverNotices()
			p.clientNotices()
		})
	}
	disconnections := counter(p.server, "synchronizer_client_disconnection_count", nil)
	require.InDelta(t, 4, disconnections, 0, "one for each")
}
