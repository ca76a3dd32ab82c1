// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"synchronizer"
)

var nodes = synchronizer.Kind{Version: "v1", Resource: "nodes"}

// patched makes a rig whose configmaps are sent as patches.
func patched(t *testing.T) *rig {
	return newRig(t, func(o *Options) { o.Kinds[0].Strategy = StrategyPatch })
}

// annotated is a Deployment with an annotation n.
func annotated(n int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"namespace":"default","name":"web","annotations":{"n":"%d"}},"spec":{"replicas":1}}`, n)
}

func (r *rig) row(kind synchronizer.Kind, name string) string {
	r.backend.mu.Lock()
	defer r.backend.mu.Unlock()
	return string(r.backend.objects[fmt.Sprint(kind, " ", name)].body)
}

func TestB010DeleteAndCreateAgainInOneWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := patched(t)
		put := func(name, data string) {
			r.cluster.Put(configmaps, fmt.Appendf(nil, `{"metadata":{"namespace":"default","name":%q},"data":%s}`, name, data))
		}
		agrees := func() {
			require.NoError(t, r.agree(configmaps, deployments))
			require.Contains(t, r.row(configmaps, "default/x"), `"data":{"c":"3"}`)
			require.NotContains(t, r.row(configmaps, "default/x"), `"a"`)
			require.Empty(t, r.backend.faults, "a patch against the dead object is one")
		}
		r.start()
		put("x", `{"a":"1","b":"2"}`)
		r.settle(50 * time.Millisecond)
		r.cluster.Delete(configmaps, "default", "x")
		r.settle(50 * time.Millisecond)
		put("x", `{"c":"3"}`)
		r.settle(time.Second)
		agrees()

		put("y", `{}`)
		r.settle(100 * time.Millisecond)
		r.cluster.Delete(configmaps, "default", "y")
		r.settle(time.Second)
		require.Empty(t, r.row(configmaps, "default/y"))
		agrees()

		for range 5 {
			r.cluster.Delete(configmaps, "default", "x")
			put("x", `{"c":"3"}`)
		}
		r.settle(5 * time.Second)
		agrees()
		r.stop()
	})
}

func TestB043LinksThatFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []synchronizer.Kind
		for i := range 10 {
			kinds = append(kinds, synchronizer.Kind{Group: "example.com", Version: "v1", Resource: fmt.Sprint("kind", i, "s")})
		}
		r := newRig(t, func(o *Options) {
			o.Kinds = nil
			for _, k := range kinds {
				o.Kinds = append(o.Kinds, KindConfig{Kind: k, Strategy: StrategyPatch})
			}
		})
		r.cluster.Serve(kinds...)
		r.start()
		event := func(i int) {
			r.cluster.Put(kinds[i%10], doc(kinds[i%10], "default", fmt.Sprint("c", i/10%7), fmt.Sprint(i)))
		}
		for i := range 60_000 {
			event(i)
			if i%300 == 0 {
				r.backend.cut()
			}
			r.settle(time.Millisecond)
		}
		connect := func() {
			for r.settle(time.Second); !r.agent.Status().Connected; {
				r.settle(time.Second)
			}
			r.settle(time.Minute)
		}
		connect()
		require.NoError(t, r.agree(kinds...))

		resume := r.backend.pause()
		for i := range 70 { // lost on the way, or waiting
			event(i)
		}
		synctest.Wait()
		r.backend.cut()
		resume()
		connect()
		require.NoError(t, r.agree(kinds...))
		require.Empty(t, r.backend.faults)

		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for i := range 10_000 {
				event(i)
				time.Sleep(time.Millisecond) // of the bubble
			}
		}()
		time.Sleep(time.Second)     // of the bubble
		r.backend.pause()           // so that a Send is stuck
		time.Sleep(8 * time.Second) // of the bubble
		started := time.Now()
		r.stop()
		require.LessOrEqual(t, time.Since(started), flushTime)
		<-stopped
	})
}

func TestB044TheLastChangeOfABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cluster.Put(deployments, annotated(0))
		r.start()
		r.settle(time.Minute)
		r.backend.heard()
		for n := 1; n <= 20; n++ {
			r.cluster.Put(deployments, annotated(n))
			r.settle(50 * time.Millisecond)
			if n == 1 {
				require.Len(t, r.backend.heard(), 1, "the first one leaves at once")
			}
		}
		r.settle(5 * time.Second)
		require.Contains(t, r.row(deployments, "default/web"), `"n":"20"`)
		require.LessOrEqual(t, len(r.backend.heard()), 2)

		said, longest, last := 0, time.Duration(0), time.Now()
		for n := range 600 {
			r.cluster.Put(deployments, annotated(100+n))
			r.settle(200 * time.Millisecond)
			if more := len(r.backend.heard()); more > 0 {
				said += more
				longest = max(longest, time.Since(last))
				last = time.Now()
			}
		}
		require.LessOrEqual(t, said, 60)
		require.GreaterOrEqual(t, said, 20)
		require.LessOrEqual(t, longest, longestWindow+200*time.Millisecond, "not starved")
		r.settle(longestWindow)
		require.NoError(t, r.agree(deployments))
		require.Empty(t, r.backend.faults)
		r.stop()
	})
}

func TestHotObject(t *testing.T) {
	for name, offers := range map[string]int{"kept": 8 << 20, "read again": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(o *Options) { o.OfferBytes = offers })
				r.cluster.Put(deployments, annotated(0))
				r.start()
				r.settle(time.Minute)
				r.backend.heard()
				gets := r.cluster.Gets(deployments)
				for n := 1; n <= 1000; n++ {
					r.cluster.Put(deployments, annotated(n))
					r.settle(10 * time.Millisecond)
				}
				r.settle(longestWindow)
				said := len(r.backend.heard())
				t.Logf("%d messages for 1,000 changes in 10 s", said)
				require.LessOrEqual(t, said, 12)
				require.NoError(t, r.agree(deployments))
				require.Less(t, r.cluster.Gets(deployments)-gets, 12)
				merged := testutil.ToFloat64(r.agent.streams[deployments].metrics.merged)
				require.InDelta(t, 1000-said, merged, 3)
				require.Zero(t, r.kind(deployments).Dirty)
				require.Empty(t, r.backend.faults)
				r.stop()
			})
		})
	}
}

func TestB070Heartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Kinds = []KindConfig{{Kind: nodes, Strategy: StrategyPatch}} })
		images := make([]string, 20)
		for i := range images {
			images[i] = fmt.Sprintf(`{"names":["image-%d"],"sizeBytes":%d}`, i, i)
		}
		beat := func(i, n int, spec string) {
			rand.Shuffle(len(images), func(i, j int) { images[i], images[j] = images[j], images[i] })
			r.cluster.Put(nodes, fmt.Appendf(nil, `{"metadata":{"name":"node-%d"},"spec":%s,"status":{"conditions":[{"lastHeartbeatTime":"%d"}],"images":[%s]}}`,
				i, spec, n, strings.Join(images, ",")))
		}
		heartbeats := func(from, to int) (said int) {
			for n := from; n < to; n++ {
				for i := range 100 {
					beat(i, n, `{}`)
					r.settle(100 * time.Millisecond) // 100 of them are 10 s
				}
			}
			return len(r.backend.heard())
		}
		heartbeats(0, 1)
		r.start()
		r.settle(time.Minute)
		r.backend.heard()

		// Two each until it is known how they differ, then one each half minute.
		first, then := heartbeats(1, 7), heartbeats(7, 37)
		t.Logf("%d messages in the first minute and %d in 5 more, of 100 nodes with 600 heartbeats a minute", first, then)
		require.LessOrEqual(t, first, 100*(2+2))
		require.LessOrEqual(t, then, 100*(10+1))
		beat(17, 100, `{"taints":[{"key":"a","effect":"NoExecute"}]}`)
		r.settle(longestWindow)
		require.Contains(t, r.row(nodes, "/node-17"), `"taints":[{"key":"a","effect":"NoExecute"}]`)
		require.Len(t, r.backend.heard(), 1)
		r.settle(minorWindow)
		require.NoError(t, r.agree(nodes))
		r.backend.heard()

		for n := range 30 { // nothing but the conditions
			for i := range 100 {
				shown := bytes.Replace(r.cluster.Objects(nodes)[i].Body, []byte(`"lastHeartbeatTime":"`), fmt.Appendf(nil, `"lastHeartbeatTime":"%d`, n), 1)
				r.cluster.Put(nodes, shown)
			}
			r.settle(10 * time.Second)
		}
		require.Empty(t, r.backend.heard())
		require.Empty(t, r.backend.faults)
		r.stop()
	})
}

func TestB072OnlyBookkeepingChanges(t *testing.T) {
	for _, strategy := range []Strategy{StrategyCopy, StrategyPatch} {
		t.Run(string(strategy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(o *Options) { o.Kinds[1].Strategy = strategy })
				put := func(n int, label string) {
					r.cluster.Put(deployments, fmt.Appendf(nil, `{"metadata":{"namespace":"default","name":"web","labels":{"l":%q},"managedFields":[{"time":"%d"}]}}`, label, n))
					r.settle(100 * time.Millisecond)
				}
				put(0, "a")
				r.start()
				r.settle(time.Minute)
				before := r.backend.objects["apps/v1/deployments default/web"]
				r.backend.heard()
				for n := range 50 {
					put(n, "a")
				}
				r.settle(time.Minute)
				require.Empty(t, r.backend.heard())
				require.Equal(t, before, r.backend.objects["apps/v1/deployments default/web"])
				put(51, "b")
				r.settle(time.Minute)
				require.Len(t, r.backend.heard(), 1)
				require.NoError(t, r.agree(deployments))
				for _, body := range append(r.backend.bodies, r.row(deployments, "default/web")) {
					require.NotContains(t, body, "managedFields")
				}
				require.Empty(t, r.backend.faults)
				r.stop()
			})
		})
	}
}

func TestWindowsGrowUnderLoad(t *testing.T) {
	m := newPlayer(traits{})
	w := &window{}
	require.Equal(t, time.Second, m.length(w))
	for range 8 {
		m.flushed(true, false)
	}
	require.Equal(t, 2*time.Second, m.length(w))
	for range 100 {
		m.flushed(true, true)
	}
	require.Equal(t, longestWindow, m.length(w))
	for range 8 {
		m.flushed(false, false)
	}
	require.Equal(t, time.Second, m.length(w))
	w.level = 8
	require.Equal(t, longestWindow, m.length(w))
}

func TestColdWindowsAreForgotten(t *testing.T) {
	m := newPlayer(traits{})
	m.play("up list a:1.x end M a:1.y")
	require.Len(t, m.windows.of, 1)
	m.play("+1s +58s")
	require.Len(t, m.windows.of, 1)
	m.play("+1s")
	require.Empty(t, m.windows.of)
	require.True(t, m.deadline().IsZero())

	for i := range 2 * maxCooling {
		m.play(fmt.Sprintf("A o%d:1.x", i))
	}
	m.play("+1s")
	require.LessOrEqual(t, len(m.windows.of), maxCooling, "a storm is not remembered")
}

func TestFingerprint(t *testing.T) {
	of := func(doc string) uint64 { return fingerprintOf([]byte(doc)) }
	a := of(`{"metadata":{"resourceVersion":"9"},"a":[1,2]}`)
	require.NotZero(t, a)
	require.Equal(t, a, of(`{"metadata":{"resourceVersion":"10"},"a":[2,1]}`))
	require.NotEqual(t, a, of(`{"metadata":{"resourceVersion":"10"},"a":[2]}`))
	require.Zero(t, of(`{`))
}

func TestStreamsStartAndStopAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cluster.Put(configmaps, doc(configmaps, "default", "c", "1"))
		r.start()
		r.cluster.Put(widgets, doc(widgets, "default", "w", "1"))
		s := newStream(r.agent, KindConfig{Kind: widgets, Strategy: StrategyPatch})
		s.metrics = r.agent.metrics.of(widgets)
		end := errors.New("stopped")
		for range 2 {
			ctx, cancel := newContext(t)
			done := make(chan error, 1)
			go func() { s.run(ctx, t.Context()); done <- end }()
			synctest.Wait()
			require.Contains(t, r.backend.heard(), "VerifyObject example.com/v1/widgets default/w")
			r.backend.drops = map[synchronizer.DropReason][]string{}
			r.cluster.Put(widgets, doc(widgets, "default", "w", fmt.Sprint(time.Now().UnixNano())))
			synctest.Wait()
			cancel()
			require.Equal(t, end, <-done)
			require.Zero(t, r.agent.pool.size())
			for range 2 * inboxLimit {
				s.inbox.put(request{session: s.session}) // does not hang
			}
			s = newStream(r.agent, KindConfig{Kind: widgets, Strategy: StrategyPatch})
			s.metrics = r.agent.metrics.of(widgets)
		}
		r.stop()
	})
}
