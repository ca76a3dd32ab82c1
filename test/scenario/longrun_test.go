// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/proxy"
)

const (
	cutEvery     = 2 * time.Second
	compactEvery = 5 // cuts
	writesPerSec = 50
	longRunSlots = 100 // names per kind
	fewMore      = 10  // goroutines that the process may have more at the end
)

// longRun is what scripts/soak.sh chooses through the environment; without it,
// the short form of make test.
type longRun struct {
	seeds    []uint64      // SOAK_SEEDS: "1", "1-3"
	duration time.Duration // SOAK_DURATION
	results  string        // SOAK_RESULTS: a file that a row per seed is appended to
}

func readLongRun(t *testing.T) longRun {
	t.Helper()
	run := longRun{seeds: []uint64{1}, duration: 15 * time.Second, results: os.Getenv("SOAK_RESULTS")}
	if text := os.Getenv("SOAK_DURATION"); text != "" {
		var err error
		run.duration, err = time.ParseDuration(text)
		require.NoError(t, err, "SOAK_DURATION")
	}
	if text := os.Getenv("SOAK_SEEDS"); text != "" {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 32)
		require.NoError(t, err, "SOAK_SEEDS")
		to, err := strconv.ParseUint(last, 10, 32)
		require.NoError(t, err, "SOAK_SEEDS")
		run.seeds = nil
		for seed := from; seed <= to; seed++ {
			run.seeds = append(run.seeds, seed)
		}
		require.NotEmpty(t, run.seeds, "SOAK_SEEDS")
	}
	return run
}

// report logs a row, and appends it to the file of results that a script names.
func report(t *testing.T, results, row string) {
	t.Helper()
	t.Log(row)
	if results == "" {
		return
	}
	f, err := os.OpenFile(results, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(row + "\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// A writer never rests, the connections to the API server are cut every 2 s, and
// every 10 s the client is kept away until etcd has compacted what it missed. It
// ends equal, and no fuller than it began. The API server has no watch cache, so
// that its watches see the compactions.
//
// It does not run beside other tests: it counts the goroutines of the process.
func TestLongRun(t *testing.T) {
	kubetest.Require(t, startErr)
	run := readLongRun(t)
	cluster := kubetest.Start(t, kubetest.WithFlags("--watch-cache=false"))
	for _, seed := range run.seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			row := run.with(t, cluster, seed)
			report(t, run.results, row)
		})
	}
}

// with returns a row of the table whose head scripts/soak.sh writes.
func (run longRun) with(t *testing.T, cluster *kubetest.Cluster, seed uint64) string {
	w := newWorld(t, cluster, configMaps, deployments)
	w.define()
	w.kinds = append(w.kinds, w.widgets())
	network := proxy.New(t, strings.TrimPrefix(cluster.URL, "https://"))
	var err error
	w.kubeconfig, err = cluster.KubeconfigVia(network.Addr())
	require.NoError(t, err)
	for _, kind := range w.kinds {
		w.createMany(kind, slotPrefix, longRunSlots, 500)
	}
	b := startBackend(t, t.TempDir(), keyed)
	client := w.startClient(to(b))
	w.agree(b)
	requests := func(verb string) int {
		return int(counter(client.registry, "synchronizer_kube_requests_total", map[string]string{"verb": verb}))
	}
	gone := func() int {
		return int(counter(client.registry, "synchronizer_kube_watch_ends_total", map[string]string{"reason": "gone"}))
	}
	firstLists := client.lists(t)
	before := measure()

	wr := w.newWriter(seed, longRunSlots, longRunSlots, w.kinds...)
	stop := wr.start(writesPerSec)
	cuts, compactions := 0, 0
	tick := time.NewTicker(cutEvery)
	defer tick.Stop()
	for end := time.Now().Add(run.duration); time.Now().Before(end); {
		<-tick.C
		if cuts++; cuts%compactEvery != 0 {
			network.Cut()
			continue
		}
		network.Refuse(true)
		network.Cut()
		wr.more(20) // of which the client will ask in vain
		require.NoError(t, cluster.Compact(t.Context()))
		network.Refuse(false)
		compactions++
	}
	stop()
	w.settled(b)
	client.runs(t)
	after := settledFootprint(before)

	lists, watches := client.lists(t)-firstLists, requests("watch")
	require.Positive(t, gone(), "no watch met a compaction")
	// After a cut each kind watches again; after a compaction it is told so and
	// lists first. Twice that leaves room for tries in vain. The client also watches
	// which kinds there are.
	const definitions = 2
	kinds := len(w.kinds)
	require.LessOrEqual(t, lists, kinds*(2*compactions+2))
	require.LessOrEqual(t, watches, (kinds+definitions)*(2*(cuts+compactions)+2))
	require.LessOrEqual(t, after.goroutines, before.goroutines+fewMore)
	require.LessOrEqual(t, after.heapMiB, before.heapMiB+24)
	return fmt.Sprintf("| %d | %v | %d | %d | %d | %d | %d | %d | %d | %d | %d → %d | %.1f → %.1f MiB | equal |",
		seed, run.duration, wr.done.Load(), cuts, compactions, gone(), lists, watches, requests("get"),
		b.count(t.Context(), w), before.goroutines, after.goroutines, before.heapMiB, after.heapMiB)
}

// lists is how often the client has listed the kinds that it carries, failed
// lists included.
func (a *agent) lists(t *testing.T) int {
	t.Helper()
	families, err := a.registry.Gather()
	require.NoError(t, err)
	lists := 0
	for _, family := range families {
		if family.GetName() == "synchronizer_agent_list_duration_seconds" {
			for _, m := range family.GetMetric() {
				lists += int(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return lists
}

// footprint is what the process holds: client, backend and test together.
type footprint struct {
	goroutines int
	heapMiB    float64
}

func measure() footprint {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{goroutines: runtime.NumGoroutine(), heapMiB: float64(m.HeapAlloc) / (1 << 20)}
}

// settledFootprint measures when what was cut has ended, or a while later.
func settledFootprint(before footprint) footprint {
	after := measure()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for after.goroutines > before.goroutines+fewMore {
		select {
		case <-tick.C:
			after = measure()
		case <-deadline.C:
			return after
		}
	}
	return after
}
