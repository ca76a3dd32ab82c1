// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"synchronizer/internal/queue"
	"synchronizer/internal/queue/nats"
	"synchronizer/internal/store/postgres"
	"synchronizer/test/brokers"
	"synchronizer/test/kubetest"
	"synchronizer/test/pgtest"
)

// killRun is what scripts/ingest-kills.sh chooses through the environment; without
// it, the short form of make test.
type killRun struct {
	seeds   []uint64 // INGEST_SEEDS: "1", "1-3"
	kills   int      // INGEST_KILLS
	pause   time.Duration
	results string // INGEST_RESULTS: a file that a row per seed is appended to
}

func readKillRun(t *testing.T) killRun {
	t.Helper()
	run := killRun{seeds: []uint64{1}, kills: 5, pause: time.Second, results: os.Getenv("INGEST_RESULTS")}
	if text := os.Getenv("INGEST_KILLS"); text != "" {
		var err error
		run.kills, err = strconv.Atoi(text)
		require.NoError(t, err, "INGEST_KILLS")
		run.pause = 5 * time.Second
	}
	if text := os.Getenv("INGEST_SEEDS"); text != "" {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 32)
		require.NoError(t, err, "INGEST_SEEDS")
		to, err := strconv.ParseUint(last, 10, 32)
		require.NoError(t, err, "INGEST_SEEDS")
		run.seeds = nil
		for seed := from; seed <= to; seed++ {
			run.seeds = append(run.seeds, seed)
		}
	}
	return run
}

// Two ingesters, each a process of its own, share a broker and a PostgreSQL. Under
// load one of them is killed again and again, and comes back. A ledger knows what
// is true: in the end the store has it, byte for byte.
func TestIngestersKilled(t *testing.T) {
	kubetest.Require(t, startErr) // builds the program
	run := readKillRun(t)
	broker := brokers.StartNATS(t, brokers.NATSOptions{})
	for _, seed := range run.seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			row := run.with(t, broker.URL, seed)
			report(t, run.results, row)
		})
	}
}

func (run killRun) with(t *testing.T, url string, seed uint64) string {
	prefix, database := fresh("kill"), pgtest.Database(t)
	store, err := postgres.Open(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	q, err := nats.Open(t.Context(), nats.Config{URLs: []string{url}, Prefix: prefix, MaxBytes: 256 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close(context.WithoutCancel(t.Context()))) })

	config := writeConfig(t, overNATS(url, prefix), database, nil)
	start := func() *process { return startProcess(t, "ingester", "--config", config) }
	ingesters := []*process{start(), start()}

	l := newLedger(t, q, queue.Compact, seed, 8)
	tail, err := q.Tail(t.Context())
	require.NoError(t, err)
	answering, stopAnswering := context.WithCancel(t.Context())
	writing, stopWriting := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return l.answer(answering, tail) })
	g.Go(func() error { return l.write(writing, 1000) })

	began := time.Now()
	random := rand.New(rand.NewPCG(seed, 78))
	for range run.kills {
		// Long and short ones: in the middle of the start, of the taking over, of the work.
		<-time.After(time.Duration(random.Int64N(int64(run.pause))))
		victim := random.IntN(len(ingesters))
		require.True(t, ingesters[victim].runs(), "an ingester has ended by itself")
		ingesters[victim].kill()
		ingesters[victim] = start()
	}
	stopWriting()
	killing := time.Since(began)
	began = time.Now()
	l.agree(store, 2*time.Minute)
	caughtUp := time.Since(began)
	stopAnswering()
	require.NoError(t, tail.Close())
	require.NoError(t, g.Wait())
	objects, deleted := 0, 0
	for _, c := range l.clusters {
		for _, doc := range c.objects {
			if doc != nil {
				objects++
			} else {
				deleted++
			}
		}
	}
	return fmt.Sprintf("| %d | %d | %s | %d | %d | %d | %d | %s | equal |", seed, run.kills, killing.Round(time.Second), l.said, l.asked, objects, deleted, caughtUp.Round(100*time.Millisecond))
}
