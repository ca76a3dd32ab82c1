// SPDX-License-Identifier: Apache-2.0

package faultproxy_test

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/faultproxy"
)

// background starts a watch and returns what it will have got when stop is called.
func background(t *testing.T, c client, path string, wait func() bool) (stop func() answer) {
	t.Helper()
	stopped := make(chan struct{})
	got := reading(t, c, path, func(answer) bool {
		select {
		case <-stopped:
			return true
		default:
			return false
		}
	})
	require.Eventually(t, wait, limit, time.Millisecond)
	return func() answer {
		close(stopped)
		return <-got
	}
}

// reading starts a watch; what it gives comes when the stream ends, or is enough.
func reading(t *testing.T, c client, path string, enough func(answer) bool) <-chan answer {
	got := make(chan answer, 1)
	go func() { got <- c.get(t, path, enough) }()
	return got
}

func told(p *faultproxy.Proxy, events int) func() bool {
	return func() bool {
		return slices.ContainsFunc(p.Requests(faultproxy.Watch("")), func(r faultproxy.Record) bool { return r.Events >= events })
	}
}

func TestStrikeHitsOpenWatches(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend, http1 bool) {
		p := faultproxy.New(t, b)
		require.Zero(t, p.Strike(faultproxy.Watch("configmaps"), faultproxy.GoneInStream{}))
		ended := reading(t, newClient(t, p, http1), b.watch(), func(answer) bool { return false })
		require.Eventually(t, told(p, 3), limit, time.Millisecond)
		require.Zero(t, p.Strike(faultproxy.Watch("secrets"), faultproxy.GoneInStream{}))
		require.Equal(t, 1, p.Strike(faultproxy.Watch("configmaps"), faultproxy.UnknownEvent{}))
		require.Equal(t, 1, p.Strike(faultproxy.Watch("configmaps"), faultproxy.GoneInStream{}))
		require.Eventually(t, func() bool { return p.Open(faultproxy.Watch("")) == 0 }, limit, time.Millisecond)
		got := <-ended
		require.NoError(t, got.err)
		require.Equal(t, []string{added, modified, deleted, "FOO foo", "ERROR 410"}, got.lines)
		require.Equal(t, []string{"unknown event", "410 in stream"}, p.Requests(faultproxy.Watch(""))[0].Faults)
	})
}

// The connection of a settled client dies; what happens then reaches nobody on
// it, and everybody on a new one (B069).
func TestKillConnections(t *testing.T) {
	for _, http1 := range []bool{false, true} {
		b := realBackend(t)
		ctx := t.Context()
		p := faultproxy.New(t, b)
		deaf := newClient(t, p, http1)
		const rest = "/api/v1/namespaces/killed/configmaps"
		require.NoError(t, shared.CreateNamespace(ctx, "killed"))
		stop := background(t, deaf, rest+"?watch=true", func() bool {
			requests := p.Requests(faultproxy.Watch("").In("killed"))
			return len(requests) == 1 && requests[0].Status == http.StatusOK
		})
		require.Equal(t, 1, p.KillConnections())
		require.Zero(t, p.KillConnections())
		_, err := shared.Do(ctx, http.MethodPost, rest, "", []byte(`{"metadata":{"name":"a"}}`))
		require.NoError(t, err)
		require.Eventually(t, told(p, 1), limit, time.Millisecond)
		if !http1 { // a second request takes the same connection
			got := deaf.get(t, rest+"/a", func(answer) bool { return true })
			require.ErrorIs(t, got.err, context.Canceled)
		}
		got := newClient(t, p, http1).get(t, rest+"/a", nil)
		require.NoError(t, got.err)
		require.Equal(t, http.StatusOK, got.status)

		got = stop()
		require.Empty(t, got.lines)
		require.ErrorIs(t, got.err, context.Canceled)
		_, err = shared.Do(ctx, http.MethodDelete, rest+"/a", "", nil)
		require.NoError(t, err)
	}
}

func TestCutConnections(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend, http1 bool) {
		p := faultproxy.New(t, b)
		stop := background(t, newClient(t, p, http1), b.watch(), told(p, 3))
		require.Equal(t, 1, p.CutConnections())
		require.Eventually(t, func() bool { return p.Open(faultproxy.Match{}) == 0 }, limit, time.Millisecond)
		require.Error(t, stop().err)
	})
}

func TestWhichRequestsAreStruck(t *testing.T) {
	b := smallBackend(t)
	struck := func(match faultproxy.Match, requests int) (which []int) {
		p := faultproxy.New(t, b)
		p.Arm(match, faultproxy.Unavailable)
		c := newClient(t, p, false)
		for i := range requests {
			if c.get(t, collection, nil).status == http.StatusServiceUnavailable {
				which = append(which, i+1)
			}
		}
		return which
	}
	require.Equal(t, []int{1, 2, 3}, struck(faultproxy.Match{}, 3))
	require.Equal(t, []int{1, 2}, struck(faultproxy.List("").Times(2), 4))
	require.Equal(t, []int{3}, struck(faultproxy.List("").Nth(3), 5))
	require.Equal(t, []int{2, 3}, struck(faultproxy.List("").Nth(2).Times(2), 5))
	require.Empty(t, struck(faultproxy.List("configmaps.apps"), 1))
	require.Empty(t, struck(faultproxy.Request("create", "configmaps"), 1))
	require.Empty(t, struck(faultproxy.List("").In("other"), 1))
	require.Empty(t, struck(faultproxy.List("").Query("limit", ""), 1))
	some := struck(faultproxy.List("").Sometimes(0.5, 7), 20)
	require.NotEmpty(t, some)
	require.Less(t, len(some), 20)
	require.Equal(t, some, struck(faultproxy.List("").Sometimes(0.5, 7), 20))
}

func TestOrderDisarmAndClear(t *testing.T) {
	b := smallBackend(t)
	p := faultproxy.New(t, b)
	c := newClient(t, p, false)
	status := func() int { return c.get(t, collection, nil).status }
	first := p.Arm(faultproxy.List("").Times(1), faultproxy.Gone)
	second := p.Arm(faultproxy.List(""), faultproxy.InternalError)
	p.Arm(faultproxy.Match{}, faultproxy.Unavailable)
	require.Equal(t, 410, status())
	require.Equal(t, 500, status())
	second.Disarm()
	require.Equal(t, 503, status())
	p.Clear()
	require.Equal(t, 200, status())
	require.Equal(t, 1, first.Count())
	require.Equal(t, []string{"answer 410", "answer 500", "answer 503"}, faults(p.Log()))
	require.Equal(t, 4, p.PerMinute(faultproxy.List("configmaps"))[0])
	require.Equal(t, 4, p.Peak(faultproxy.List("configmaps"), time.Hour))
	require.Equal(t, 1, p.Peak(faultproxy.List("configmaps"), time.Nanosecond))
	require.Zero(t, p.Peak(faultproxy.Watch(""), time.Hour))
}

func faults(log []faultproxy.Event) (names []string) {
	for _, e := range log {
		names = append(names, e.Fault)
	}
	return names
}

func TestNamedByFieldSelector(t *testing.T) {
	b := smallBackend(t)
	p := faultproxy.New(t, b)
	p.Arm(faultproxy.List("configmaps").Named("x"), faultproxy.Gone)
	c := newClient(t, p, false)
	require.Equal(t, 410, c.get(t, collection+"?fieldSelector=metadata.name%3Dx", nil).status)
	require.Equal(t, 200, c.get(t, collection+"?fieldSelector=metadata.name%3Dy", nil).status)
}

// kubectl works through the proxy, with the backend's rights or with its own.
func TestKubectl(t *testing.T) {
	realBackend(t)
	ctx := t.Context()
	reader, err := shared.UserKubeconfig(ctx, "faults-reader", nil,
		kubetest.PolicyRule{Namespace: "faults", Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		backend faultproxy.Backend
		allowed bool
	}{
		"administrator": {shared, true},
		"reader":        {userBackend(t, reader), false},
	} {
		t.Run(name, func(t *testing.T) {
			p := faultproxy.New(t, test.backend)
			path := filepath.Join(t.TempDir(), "kubeconfig")
			require.NoError(t, p.Kubeconfig(path))
			out, err := shared.Kubectl(ctx, "--kubeconfig", path, "get", "configmaps", "-n", "faults", "-o", "name")
			require.NoError(t, err)
			require.Equal(t, "configmap/x\nconfigmap/y\nconfigmap/z\n", string(out))
			_, err = shared.Kubectl(ctx, "--kubeconfig", path, "get", "secrets", "-n", "faults")
			require.Equal(t, test.allowed, err == nil, "%v", err)
			_, err = shared.Kubectl(ctx, "--kubeconfig", path, "--token", "nobody's", "get", "configmaps", "-n", "faults")
			require.ErrorContains(t, err, "logged in", "its own credentials count")
		})
	}
}
