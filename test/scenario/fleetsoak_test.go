// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
	"synchronizer/internal/bench/fleetclient"
	"synchronizer/internal/config"
	"synchronizer/test/kubetest/proxy"
)

// soakRun is what scripts/fleet-soak.sh chooses through the environment; without
// it, the short form of make test.
type soakRun struct {
	seeds    []uint64      // FLEET_SEEDS: "1", "1-3"
	duration time.Duration // FLEET_DURATION
	clients  int
	flood    int // commands for a client that does not read: more than the server keeps for it
	warmUp   time.Duration
	results  string // FLEET_RESULTS: a file that a row per seed is appended to
	// calm is for how long nothing must become less before it is measured. The queue
	// keeps what was read last for ten seconds, so only a long run looks at the heap.
	calm time.Duration
	heap bool
}

func readSoakRun(t *testing.T) soakRun {
	t.Helper()
	run := soakRun{seeds: []uint64{1}, duration: 5 * time.Second, clients: 40, flood: 300, warmUp: 2 * time.Second, calm: time.Second, results: os.Getenv("FLEET_RESULTS")}
	if text := os.Getenv("FLEET_DURATION"); text != "" {
		var err error
		run.duration, err = time.ParseDuration(text)
		require.NoError(t, err, "FLEET_DURATION")
		run.clients, run.flood, run.warmUp, run.calm, run.heap = 150, 600, 20*time.Second, 15*time.Second, true
	}
	if text := os.Getenv("FLEET_SEEDS"); text != "" {
		run.seeds = readSeeds(t, text)
	}
	return run
}

// readSeeds reads "3" or "1-3".
func readSeeds(t *testing.T, text string) (seeds []uint64) {
	t.Helper()
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 32)
	require.NoError(t, err, "the first seed")
	to, err := strconv.ParseUint(last, 10, 32)
	require.NoError(t, err, "the last seed")
	for seed := from; seed <= to; seed++ {
		seeds = append(seeds, seed)
	}
	require.NotEmpty(t, seeds, "seeds")
	return seeds
}

// fleetSoak is one server and the clients that treat it badly.
type fleetSoak struct {
	t       *testing.T
	run     soakRun
	backend *backend
	ledger  *fleetLedger
	holes   chan *proxy.Proxy
	reading sync.WaitGroup

	clients []*soakClient
	idle    []*live // of each client, between two storms

	sessions, finished, resets, replaced, slow, floods, blackHoles, sent, received atomic.Int64
}

const soakHoles = 4

// Clients connect to a server, speak and go in all the ways there are: in order, by
// RST, in a black hole, replaced by another connection of the same cluster, or
// without reading what they are told. Behind the queue of every connection the
// records come that it sent, in order and without a gap, and all of them if it ended
// in order. When the clients have come to rest, the server counts as many as there
// are, and holds no more memory and goroutines than before.
//
// It does not run beside other tests: it counts the goroutines of the process.
func TestFleetSoak(t *testing.T) {
	run := readSoakRun(t)
	for _, seed := range run.seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			row := run.with(t, seed)
			report(t, run.results, row)
		})
	}
}

// with returns a row of the table whose head scripts/fleet-soak.sh writes.
func (run soakRun) with(t *testing.T, seed uint64) string {
	s := &fleetSoak{t: t, run: run, ledger: newFleetLedger(), holes: make(chan *proxy.Proxy, soakHoles)}
	s.start()
	for range soakHoles {
		s.holes <- proxy.New(t, s.backend.clients)
	}
	for i := range run.clients {
		s.clients = append(s.clients, &soakClient{soak: s, number: i, random: rand.New(rand.NewPCG(seed, uint64(i)))})
	}

	s.storm(run.warmUp)
	s.leave()
	alone := atRest(run.calm).goroutines
	s.storm(0) // connects
	before := s.restful()
	s.storm(run.duration)
	after := s.restful()

	// What the soak is about has happened.
	for name, n := range map[string]*atomic.Int64{
		"in order": &s.finished, "reset": &s.resets, "replaced": &s.replaced, "slow readers": &s.slow, "black holes": &s.blackHoles,
	} {
		require.Positive(t, n.Load(), name)
	}
	dropped := s.missed()
	require.Positive(t, dropped, "slow readers did not miss anything")
	if run.heap && after.heapMiB > before.heapMiB*1.1 {
		require.Failf(t, "the heap has grown", "from %.2f MiB to %.2f MiB", before.heapMiB, after.heapMiB)
	}
	require.LessOrEqual(t, after.goroutines, before.goroutines, "between two times at which all clients were idle")

	s.leave()
	if left := atRest(run.calm).goroutines; left > alone {
		var stacks strings.Builder
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&stacks, 1))
		require.Failf(t, "goroutines are left behind", "%d instead of %d:\n%s", left, alone, stacks.String())
	}
	came, _, err := s.ledger.state()
	require.NoError(t, err)
	return fmt.Sprintf("| %d | %v | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %.0f | %d | %d → %d | %.2f → %.2f MiB | none |",
		seed, run.duration, run.clients, s.sessions.Load(), s.finished.Load(), s.resets.Load(), s.replaced.Load(), s.blackHoles.Load(), s.slow.Load(),
		s.sent.Load(), came, s.received.Load(), dropped, s.ledger.repeated, before.goroutines, after.goroutines, before.heapMiB, after.heapMiB)
}

// start runs a server as the process is wired, but for the ingester.
func (s *fleetSoak) start() {
	t := s.t
	t.Setenv("KS_LOGGER_LEVEL", "error") // or the log of the soak would be measured
	var env config.Env
	for key, value := range map[string]string{
		"SYNCHRONIZER_BACKEND_DATADIR": t.TempDir(), "SYNCHRONIZER_BACKEND_LISTEN": "127.0.0.1:0", "SYNCHRONIZER_BACKEND_HEALTHPORT": "0",
	} {
		env = env.With(key, value)
	}
	c, _, err := config.LoadUp(env)
	require.NoError(t, err)
	no := false
	c.Ingester.Enabled = &no
	c.Backend.ClientBacklogBytes = 256 << 10
	p := app.NewProcess(io.Discard)
	opened, err := server.Open(t.Context(), p, c)
	require.NoError(t, err)
	s.backend = &backend{clients: opened.ClientsAddress(), registry: p.Registry, queue: opened.Queue(), ready: opened.Ready}
	consumer, err := s.backend.queue.Consume(t.Context(), "fleet-soak")
	require.NoError(t, err)
	_, s.backend.stop = background(t, "server", opened.Run)
	background(t, "ledger", func(ctx context.Context) error {
		err := s.ledger.read(ctx, consumer)
		_ = consumer.Close() // nothing is to be saved
		return err
	})
	eventually(t, "the server is ready", func() bool { return s.backend.ready() == nil })
}

// storm lets all clients live for so long, and leaves each connected once.
func (s *fleetSoak) storm(d time.Duration) {
	if s.idle != nil {
		s.leave()
	}
	s.idle = make([]*live, len(s.clients))
	// A deadline would make a dial fail a moment before the context has ended.
	during, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	defer time.AfterFunc(d, cancel).Stop()
	g, ctx := errgroup.WithContext(during)
	for i, c := range s.clients {
		g.Go(func() (err error) {
			s.idle[i], err = c.run(ctx)
			return err
		})
	}
	g.Go(func() error {
		s.keepTelling(ctx)
		return nil
	})
	require.NoError(s.t, g.Wait())
	_, _, err := s.ledger.state()
	require.NoError(s.t, err)
}

// leave ends all connections and waits until the server knows it.
func (s *fleetSoak) leave() {
	for _, l := range s.idle {
		s.ledger.end(l.session, l.sent, false)
		l.Reset()
		<-l.done
	}
	s.idle = nil
	s.reading.Wait()
	eventually(s.t, "no client is counted", func() bool { return s.gauge() == 0 })
}

// keepTelling gives random clients something to read.
func (s *fleetSoak) keepTelling(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := s.tell(ctx, rand.IntN(len(s.clients)), 2); err != nil && ctx.Err() == nil {
				s.ledger.report(err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// restful waits until all has come that has to, holds the server's figures against
// what is true, and measures.
func (s *fleetSoak) restful() footprint {
	t := s.t
	t.Helper()
	produced := map[string]string{"event_type": "PutObject", "status": "success"}
	eventually(t, "all that the queue accepted has come", func() bool {
		came, owed, err := s.ledger.state()
		require.NoError(t, err)
		return owed == 0 && came >= int(s.counted("synchronizer_mq_producer_messages_produced_count", produced))
	})
	eventually(t, "the gauge is the number of clients", func() bool { return s.gauge() == float64(len(s.clients)) })
	for _, l := range s.idle {
		require.NoError(t, l.Write(fleetclient.Ping()))
		select {
		case <-l.done:
			require.NoError(t, l.err, "a connection that nobody ended")
		default:
		}
	}
	s.ledger.forget()
	for _, l := range s.idle {
		s.ledger.begin(l.session) // it goes on
	}
	return atRest(s.run.calm)
}

func (s *fleetSoak) counted(name string, labels map[string]string) float64 {
	return counter(s.backend.registry, name, labels)
}

// missed is how much slow readers were not told.
func (s *fleetSoak) missed() float64 {
	return s.counted("synchronizer_drops_total", map[string]string{"reason": string(synchronizer.DropBacklog)})
}

func (s *fleetSoak) gauge() float64 { return s.counted("synchronizer_connected_clients_count", nil) }

// atRest measures again and again until nothing has become less for a while:
// connections that were cut end when they find that out.
func atRest(calm time.Duration) footprint {
	runtime.GC() // what pools held goes with the second one
	least, since := measure(), time.Now()
	tick := time.NewTicker(calm / 10)
	defer tick.Stop()
	for time.Since(since) < calm {
		<-tick.C
		now := measure()
		if now.heapMiB < 0.99*least.heapMiB || now.goroutines < least.goroutines {
			since = time.Now()
		}
		least.heapMiB, least.goroutines = min(least.heapMiB, now.heapMiB), min(least.goroutines, now.goroutines)
	}
	return least
}
