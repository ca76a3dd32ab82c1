// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/api"
	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
	"synchronizer/internal/checksum"
	"synchronizer/internal/config"
	"synchronizer/internal/diff"
)

// backend is a running backend, in this process or another one.
type backend struct {
	clients   string // host:port for clients
	accessKey string // of account local; "" if everybody is let in
	api       *api.Client
	tokenFile string

	registry *prometheus.Registry // nil if it is another process
	queue    synchronizer.Queue   // nil if it is another process
	ready    func() error
	stop     func() // ends it in order and waits
}

// keyed are the settings with which clients need an access key.
var keyed = map[string]string{"SYNCHRONIZER_BACKEND_ACCESSKEYS": config.AccessKeysStore}

// startBackend runs a backend in this process on free ports and the data in dir,
// until the test ends.
func startBackend(t testing.TB, dir string, settings map[string]string) *backend {
	t.Helper()
	return startChanged(t, dir, settings, func(*config.Config) {})
}

// startChanged is startBackend with settings that have no environment variable.
func startChanged(t testing.TB, dir string, settings map[string]string, change func(*config.Config)) *backend {
	t.Helper()
	var variables config.Env
	for key, value := range map[string]string{
		"SYNCHRONIZER_BACKEND_DATADIR": dir, "SYNCHRONIZER_BACKEND_LISTEN": "127.0.0.1:0",
		"SYNCHRONIZER_API_LISTEN": "127.0.0.1:0", "SYNCHRONIZER_BACKEND_HEALTHPORT": "0",
	} {
		variables = variables.With(key, value)
	}
	for key, value := range settings {
		variables = variables.With(key, value)
	}
	c, _, err := config.LoadUp(variables)
	require.NoError(t, err)
	change(c)
	p := app.NewProcess(newLog(t, "backend"))
	opened, err := server.Open(t.Context(), p, c)
	require.NoError(t, err)
	b := &backend{
		clients: opened.ClientsAddress(), accessKey: opened.Secrets.AccessKey, tokenFile: opened.Secrets.APITokenFile,
		api:      newAPI(t, opened.APIAddress(), opened.Secrets.APIToken),
		registry: p.Registry, queue: opened.Queue(), ready: opened.Ready,
	}
	_, b.stop = background(t, "backend", opened.Run)
	eventually(t, "the backend is ready", func() bool { return b.ready() == nil })
	return b
}

// newAPI has connections of its own, which end with the test.
func newAPI(t testing.TB, address, token string) *api.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &api.Client{Server: "http://" + address, Token: token, HTTP: &http.Client{Transport: transport, Timeout: patience}}
}

// background runs something until stop or the end of the test. An error of it
// fails the test; done is closed at its end.
func background(t testing.TB, what string, run func(context.Context) error) (done <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-ended:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(patience):
			t.Errorf("%s did not end", what)
		}
	})
	t.Cleanup(stop)
	return ended, stop
}

// stored reads what the backend has of a cluster.
func (b *backend) stored(ctx context.Context, account, cluster string) (diff.Set, error) {
	set := diff.Set{}
	err := b.api.EachPage(ctx, url.Values{"account": {account}, "cluster": {cluster}, "limit": {"5000"}}, func(page []api.Object) error {
		for i := range page {
			o := &page[i]
			kind := synchronizer.Kind{Group: o.Group, Version: o.Version, Resource: o.Resource}
			set[diff.Key{Kind: kind, Namespace: o.Namespace, Name: o.Name}] = diff.Entry{UID: o.UID, Checksum: o.Checksum, ResourceVersion: o.ResourceVersion}
		}
		return nil
	})
	return set, err
}

// object reads one row; nil if there is none. A tombstone is a row.
func (b *backend) object(t testing.TB, w *world, kind synchronizer.Kind, name string) *api.Object {
	t.Helper()
	namespace := w.namespaceOf(kind)
	if namespace == "" {
		namespace = "-"
	}
	group := kind.Group
	if group == "" {
		group = "core"
	}
	list, err := b.api.Objects(t.Context(), url.Values{
		"account": {server.LocalAccount}, "cluster": {w.name}, "group": {group}, "resource": {kind.Resource},
		"namespace": {namespace}, "name": {name}, "deleted": {"true"}, "full": {"true"},
	})
	require.NoError(t, err)
	if len(list.Items) == 0 {
		return nil
	}
	require.Len(t, list.Items, 1)
	return &list.Items[0]
}

// count is how many objects are stored of a cluster.
func (b *backend) count(ctx context.Context, w *world) int {
	list, err := b.api.Clusters(ctx)
	if err != nil {
		return 0
	}
	at := slices.IndexFunc(list, func(c api.Cluster) bool { return c.Cluster == w.name })
	if at < 0 {
		return 0
	}
	return int(list[at].Objects)
}

// agree waits until the store has what the cluster has, and not one object more.
func (w *world) agree(b *backend) {
	w.t.Helper()
	w.agreeAs(b, server.LocalAccount)
}

func (w *world) agreeAs(b *backend, account string) {
	w.t.Helper()
	var report diff.Report
	var err error
	equal := func() bool {
		var live, stored diff.Set
		if stored, err = b.stored(w.t.Context(), account, w.name); err != nil {
			return false
		}
		if live, err = w.live(stored); err != nil {
			return false
		}
		report = diff.Compare(live, stored)
		return report.Equal() && report.Agree > 0
	}
	deadline := time.Now().Add(patience)
	for !equal() {
		if time.Now().After(deadline) {
			require.NoError(w.t, err)
			require.FailNow(w.t, "store and cluster differ", "%d agree\nmissing %d: %v\nextra %d: %v\ndifferent %d: %v", report.Agree,
				len(report.Missing), head(report.Missing), len(report.Extra), head(report.Extra), len(report.Different), head(report.Different))
		}
		tick := time.NewTimer(5 * glance)
		select {
		case <-tick.C:
		case <-w.t.Context().Done():
			require.FailNow(w.t, "the test is over")
		}
	}
	w.t.Logf("%d objects agree", report.Agree)
}

// settled is agree for a storm: a last object goes the same way behind all that
// is still under way, and after it nothing may have changed for the worse. Every
// body is held against the checksum of its row, too.
func (w *world) settled(b *backend) {
	w.t.Helper()
	w.agree(b)
	w.create(configMaps, fmt.Sprintf("last-%d", w.revision.Add(1)))
	w.agree(b)
	query := url.Values{"account": {server.LocalAccount}, "cluster": {w.name}, "full": {"true"}, "limit": {"1000"}}
	require.NoError(w.t, b.api.EachPage(w.t.Context(), query, func(page []api.Object) error {
		for i := range page {
			sum, err := checksum.ObjectV1(page[i].Object)
			require.NoError(w.t, err)
			require.Equal(w.t, page[i].Checksum, sum, page[i].Name)
		}
		return nil
	}))
}

func head(list []string) []string { return list[:min(len(list), 5)] }

// lines is the log of a process, shown if the test fails.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newLog(t testing.TB, of string) *lines {
	l := &lines{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of the %s:\n%s", of, l.tail(40))
		}
	})
	return l
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(strings.TrimSpace(l.text.String()), "\n")
	return strings.Join(all[max(0, len(all)-n):], "\n")
}
