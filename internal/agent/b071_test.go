// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// manyObjects is a cluster that makes its objects while they are read, and so
// keeps nothing in memory.
type manyObjects struct {
	perKind, size int
}

func (c manyObjects) object(kind synchronizer.Kind, i int, body []byte) synchronizer.Object {
	name := fmt.Sprintf("object-%d", i)
	body = fmt.Appendf(body[:0], `{"apiVersion":"v1","kind":"Thing","metadata":{"namespace":"default","name":%q,"uid":"%s-%d","resourceVersion":"5"},"data":{"value":"`, name, kind.Resource, i)
	body = append(body, bytes.Repeat([]byte("x"), c.size-len(body))...)
	body = append(body, `"}}`...)
	return synchronizer.Object{Namespace: "default", Name: name, UID: fmt.Sprintf("%s-%d", kind.Resource, i), ResourceVersion: "5", Body: body}
}

func (c manyObjects) List(_ context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	var body []byte
	for i := range c.perKind {
		o := c.object(kind, i, body)
		if err := each(o); err != nil {
			return "", err
		}
		body = o.Body
	}
	return "5", nil
}

func (c manyObjects) Watch(ctx context.Context, _ synchronizer.Kind, _ string, _ func(synchronizer.WatchEvent) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (c manyObjects) Get(_ context.Context, kind synchronizer.Kind, _, name string) (synchronizer.Object, error) {
	var i int
	if _, err := fmt.Sscanf(name, "object-%d", &i); err != nil {
		return synchronizer.Object{}, err
	}
	return c.object(kind, i, nil), nil
}

// slowLink takes 200 messages a second, asks for every object that it does not
// have, and keeps only how many came.
type slowLink struct {
	*fakeLink
	puts, peak, messages *atomic.Int64
}

func (l slowLink) Send(ctx context.Context, msgs ...synchronizer.Message) error {
	for i := range msgs {
		time.Sleep(5 * time.Millisecond) // of the bubble
		if l.messages.Add(1)%200 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			l.peak.Store(max(l.peak.Load(), int64(m.HeapAlloc)))
		}
		switch m := &msgs[i]; m.Event {
		case synchronizer.EventVerify:
			l.down <- synchronizer.Message{Event: synchronizer.EventGet, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, MsgID: m.MsgID, Depth: 2}
		case synchronizer.EventPut:
			l.puts.Add(1)
		}
	}
	return nil
}

type slowDialer struct{ link slowLink }

func (d slowDialer) Dial(context.Context) (synchronizer.Link, error) { return d.link, nil }

// TestB071FirstListsWithASlowBackend: 20,000 objects of 20 KiB in 10 kinds (390
// MiB) are sent to a backend that takes 200 messages a second, under a memory
// limit of 100 MiB, where the case has 500.
func TestB071FirstListsWithASlowBackend(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds")
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(100 << 20))
	const perKind, size = 2000, 20 << 10
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		o := r.agent.options
		link := slowLink{
			fakeLink: &fakeLink{down: make(chan synchronizer.Message, 1<<16), dead: make(chan struct{})},
			puts:     &atomic.Int64{}, peak: &atomic.Int64{}, messages: &atomic.Int64{},
		}
		o.Cluster, o.Select, o.Dialer, o.Kinds = manyObjects{perKind, size}, nil, slowDialer{link}, nil
		for i := range 10 {
			o.Kinds = append(o.Kinds, KindConfig{Kind: synchronizer.Kind{Version: "v1", Resource: fmt.Sprint("things", i)}, Strategy: StrategyPatch})
		}
		a, err := New(o)
		require.NoError(t, err)
		r.agent = a
		r.start()
		for range 60 {
			r.settle(10 * time.Second)
			if link.puts.Load() >= 10*perKind {
				break
			}
		}
		require.EqualValues(t, 10*perKind, link.puts.Load(), "everything arrives")
		for _, k := range a.Status().Kinds {
			require.Equal(t, perKind, k.Objects)
			require.Equal(t, StateWatching, k.State)
		}
		t.Logf("peak heap %d MiB of %d MiB of objects, %d messages", link.peak.Load()>>20, 10*perKind*size>>20, link.messages.Load())
		require.Less(t, link.peak.Load(), int64(10*perKind*size/3))
		r.stop()
	})
}
