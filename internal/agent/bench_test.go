// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/policy"
)

// TestMemoryPerObject bounds what the agent keeps of an object.
func TestMemoryPerObject(t *testing.T) {
	const objects = 100_000
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	now := time.Now()
	m := newMachine(now, exactly, traits{window: time.Second})
	m.linkUp(now)
	for i := range objects {
		m.listed(now, item{
			key: keyOf(fmt.Sprint("namespace-", i%100), fmt.Sprintf("web-%05d-7d4b9c6f5d-x2k9p", i)),
			uid: parseUID(fmt.Sprintf("eb%06x-e0aa-45af-a715-7cd265f80e78", i)), version: uint64(i), digest: checksum.Digest{1},
		})
		m.effects = m.effects[:0]
	}
	m.listEnded(now, "1", nil)
	m.effects = nil
	each := float64(heap()-before) / objects
	runtime.KeepAlive(m)
	t.Logf("%.0f bytes per object", each)
	if each > 180 {
		t.Errorf("%.0f bytes per object", each)
	}
}

// listCluster lists one document again and again, under other names.
type listCluster struct {
	doc     []byte
	objects int
	listed  chan struct{}
}

func (c *listCluster) List(_ context.Context, _ synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	for i := range c.objects {
		o := synchronizer.Object{Namespace: "default", Name: fmt.Sprint("o", i), UID: fmt.Sprint(i), ResourceVersion: fmt.Sprint(i + 1), Body: c.doc}
		if err := each(o); err != nil {
			return "", err
		}
	}
	return "1", nil
}

func (c *listCluster) Watch(ctx context.Context, _ synchronizer.Kind, _ string, _ func(synchronizer.WatchEvent) error) error {
	close(c.listed)
	<-ctx.Done()
	return ctx.Err()
}

func (c *listCluster) Get(context.Context, synchronizer.Kind, string, string) (synchronizer.Object, error) {
	return synchronizer.Object{}, synchronizer.ErrNotFound
}

// sink takes messages and never asks for anything.
type sink struct {
	fakeLink
	events [16]int
}

func (s *sink) Dial(context.Context) (synchronizer.Link, error) { return s, nil }

func (s *sink) Send(_ context.Context, msgs ...synchronizer.Message) error {
	for i := range msgs {
		s.events[msgs[i].Event]++
	}
	return nil
}

// changeCluster lists objects and changes each of them again and again.
type changeCluster struct {
	listCluster
	docs    [2][]byte
	changes int
	warm    chan struct{} // closed when every object was changed twice
	done    chan struct{}
}

func (c *changeCluster) Watch(ctx context.Context, _ synchronizer.Kind, _ string, each func(synchronizer.WatchEvent) error) error {
	for i := range 2*c.objects + c.changes {
		if i == 2*c.objects {
			close(c.warm)
		}
		n := i % c.objects
		o := synchronizer.Object{Namespace: "default", Name: fmt.Sprint("o", n), UID: fmt.Sprint(n), ResourceVersion: fmt.Sprint(i + 2), Body: c.docs[i/c.objects%2]}
		if err := each(synchronizer.WatchEvent{Type: synchronizer.WatchModified, Object: o}); err != nil {
			return err
		}
	}
	close(c.done)
	<-ctx.Done()
	return ctx.Err()
}

// BenchmarkChange measures a change of a pod from the API server's bytes to the
// link, as BenchmarkFirstList does, with the window of the object over.
func BenchmarkChange(b *testing.B) {
	pod, err := os.ReadFile("testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	changed := bytes.Replace(pod, []byte(`"Running"`), []byte(`"Pending"`), 1)
	if bytes.Equal(pod, changed) {
		b.Fatal("the pod does not run")
	}
	for _, strategy := range []Strategy{StrategyCopy, StrategyPatch} {
		b.Run(string(strategy), func(b *testing.B) {
			cluster := &changeCluster{
				listCluster: listCluster{doc: pod, objects: 1000}, docs: [2][]byte{changed, pod}, changes: b.N,
				warm: make(chan struct{}), done: make(chan struct{}),
			}
			link := &sink{fakeLink: fakeLink{down: make(chan synchronizer.Message), dead: make(chan struct{})}}
			a, err := New(Options{
				Cluster: cluster, Dialer: link, Policy: policy.New(policy.LinkV1), Kinds: []KindConfig{{Kind: deployments, Strategy: strategy}},
				Drop: func(reason synchronizer.DropReason, what string) { b.Error(reason, what) }, CoalesceWindow: 1,
			})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- a.Run(ctx) }()
			<-cluster.warm
			b.SetBytes(int64(len(pod)))
			b.ReportAllocs()
			used := processorTime(b)
			b.ResetTimer()
			<-cluster.done
			b.StopTimer()
			b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(b.N), "cpu-µs/op")
			cancel()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(link.events[synchronizer.EventPatch])/float64(cluster.changes+2000), "patches/op")
		})
	}
}

// processorTime is what the process used so far: unlike the time that passes it
// says something on a machine that does other things too.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkFirstList measures an object from the API server's bytes to the link:
// filter, policy, digest, checksum v1, bookkeeping, offer.
func BenchmarkFirstList(b *testing.B) {
	pod, err := os.ReadFile("testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(pod)))
	cluster := &listCluster{doc: pod, objects: b.N, listed: make(chan struct{})}
	link := &sink{fakeLink: fakeLink{down: make(chan synchronizer.Message), dead: make(chan struct{})}}
	a, err := New(Options{
		Cluster: cluster, Dialer: link, Policy: policy.New(policy.LinkV1), Kinds: []KindConfig{{Kind: deployments, Strategy: StrategyPatch}},
		Drop: func(reason synchronizer.DropReason, what string) { b.Error(reason, what) },
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	b.ReportAllocs()
	used := processorTime(b)
	b.ResetTimer()
	go func() { done <- a.Run(ctx) }()
	<-cluster.listed
	b.StopTimer()
	b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(b.N), "cpu-µs/op")
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
