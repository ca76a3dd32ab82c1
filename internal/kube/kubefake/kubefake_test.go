// SPDX-License-Identifier: Apache-2.0

package kubefake

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var deployments = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}

func names(t *testing.T, c *Cluster) (names []string, version string) {
	t.Helper()
	version, err := c.List(t.Context(), deployments, func(o synchronizer.Object) error {
		names = append(names, o.Namespace+"/"+o.Name)
		return nil
	})
	require.NoError(t, err)
	return names, version
}

func TestBytesAreLentOnly(t *testing.T) {
	c := New()
	c.Put(deployments, []byte(`{"metadata":{"name":"web","namespace":"a"},"spec":{"n":1.0}}`))
	var kept []byte
	_, err := c.List(t.Context(), deployments, func(o synchronizer.Object) error {
		require.Equal(t, `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"resourceVersion":"2","uid":"00000000-0000-4000-8000-000000000002","name":"web","namespace":"a"},"spec":{"n":1.0}}`, string(o.Body))
		kept = o.Body
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, byte('#'), kept[0])
}

func TestFaults(t *testing.T) {
	c := New()
	boom := errors.New("boom")
	noop := func(synchronizer.Object) error { return nil }
	_, err := c.List(t.Context(), deployments, noop)
	require.ErrorIs(t, err, synchronizer.ErrKindNotServed)

	c.Put(deployments, []byte(`{"metadata":{"name":"b","namespace":"a"}}`))
	c.Put(deployments, []byte(`{"metadata":{"name":"x","namespace":"a-b"}}`))
	found, version := names(t, c)
	require.Equal(t, []string{"a-b/x", "a/b"}, found, "storage keys are ordered as one text")
	require.Equal(t, c.ResourceVersion(), version)

	c.FailNext(VerbList, deployments, nil, boom)
	_, _ = names(t, c)
	_, err = c.List(t.Context(), deployments, noop)
	require.ErrorIs(t, err, boom)

	c.FailListAfter(deployments, 1, boom)
	n := 0
	_, err = c.List(t.Context(), deployments, func(synchronizer.Object) error { n++; return nil })
	require.ErrorIs(t, err, boom)
	require.Equal(t, 1, n)

	c.FailItem(deployments, "a", "b", boom)
	_, err = c.List(t.Context(), deployments, func(o synchronizer.Object) error {
		if o.Name == "b" {
			require.ErrorIs(t, o.Err, boom)
			require.Nil(t, o.Body)
		}
		return nil
	})
	require.NoError(t, err)
}

func TestWatchFaults(t *testing.T) {
	c := New()
	c.Serve(deployments)
	from := c.ResourceVersion()
	events := make(chan synchronizer.WatchEventType, 10)
	done := make(chan error, 1)
	watch := func(from string) {
		done <- c.Watch(t.Context(), deployments, from, func(e synchronizer.WatchEvent) error {
			events <- e.Type
			return nil
		})
	}
	go watch(from)
	require.Eventually(t, func() bool { return c.Watching(deployments) == 1 }, 5*time.Second, time.Millisecond)
	c.Put(deployments, []byte(`{"metadata":{"name":"b","namespace":"a"}}`))
	c.PutSilently(deployments, []byte(`{"metadata":{"name":"b","namespace":"a"},"spec":{}}`))
	c.Put(deployments, []byte(`{"metadata":{"name":"b","namespace":"a"}}`))
	c.Bookmark(deployments)
	c.Delete(deployments, "a", "b")
	for _, want := range []synchronizer.WatchEventType{synchronizer.WatchAdded, synchronizer.WatchModified, synchronizer.WatchBookmark, synchronizer.WatchDeleted} {
		require.Equal(t, want, <-events)
	}
	c.BreakWatches(deployments)
	require.ErrorIs(t, <-done, ErrBroken)

	c.CompactBefore(c.ResourceVersion())
	go watch(from)
	require.ErrorIs(t, <-done, synchronizer.ErrGone)

	go watch(c.ResourceVersion())
	require.Eventually(t, func() bool { return c.Watching(deployments) == 1 }, 5*time.Second, time.Millisecond)
	c.Unserve(deployments)
	require.NoError(t, <-done)
}

func TestHold(t *testing.T) {
	c := New()
	c.Put(deployments, []byte(`{"metadata":{"name":"b","namespace":"a"}}`))
	release := c.Hold(VerbGet, deployments)
	got := make(chan synchronizer.Object, 1)
	go func() {
		o, _ := c.Get(context.WithoutCancel(t.Context()), deployments, "a", "b")
		got <- o
	}()
	require.Eventually(t, func() bool { return c.Held(VerbGet, deployments) == 1 }, 5*time.Second, time.Millisecond)
	want := c.Put(deployments, []byte(`{"metadata":{"name":"b","namespace":"a"}}`))
	release()
	release()
	require.Equal(t, want, (<-got).ResourceVersion)
}
