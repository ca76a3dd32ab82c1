// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/test/brokers"
)

// TestShare: every partition has an owner, all members have about the same number,
// the order of the names does not matter, and a member that comes takes partitions
// without moving many of the others.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9]{1,8}`), 1, 20, rapid.ID[string]).Draw(t, "members")
		const partitions = 16
		owners := share(ids, partitions)
		require.Len(t, owners, partitions)
		load := map[string]int{}
		for _, owner := range owners {
			require.Contains(t, ids, owner)
			load[owner]++
		}
		for _, id := range ids {
			require.GreaterOrEqual(t, load[id], partitions/len(ids))
			require.LessOrEqual(t, load[id], (partitions+len(ids)-1)/len(ids))
		}
		other := rapid.Permutation(ids).Draw(t, "order")
		require.Equal(t, owners, share(append(other, other[0]), partitions))
	})
	before, after := share([]string{"a", "b", "c"}, 16), share([]string{"a", "b", "c", "d"}, 16)
	moved := 0
	for p := range before {
		if before[p] != after[p] {
			moved++
		}
	}
	require.LessOrEqual(t, moved, 8, "4 have to")
}

// keys are enough that every partition has some.
func keys(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("account/cluster-%d", i)
	}
	return list
}

func publishTo(t testing.TB, q *Queue, keys []string, from, to int) {
	t.Helper()
	var all []synchronizer.Record
	for _, key := range keys {
		all = append(all, numbers(key, from, to, 64)...)
	}
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, all))
}

// follow checks that each key goes on behind the last number, or begins again at
// an earlier one, and never leaves one out.
type follow map[string]int

func (f follow) see(t testing.TB, records []synchronizer.Record) {
	t.Helper()
	for i := range records {
		r := &records[i]
		n := numberOf(r)
		require.LessOrEqual(t, n, f[r.Key], "key %s leaves records out", r.Key)
		f[r.Key] = n + 1
	}
}

func (f follow) complete(keys []string, n int) bool {
	for _, key := range keys {
		if f[key] < n {
			return false
		}
	}
	return true
}

const victimURL, victimPrefix = "SYNCHRONIZER_TEST_VICTIM_URL", "SYNCHRONIZER_TEST_VICTIM_PREFIX"

// victimMember joins the group, acknowledges 40 records, takes some more and waits
// for its death.
func victimMember(url, prefix string) {
	ctx := context.Background() // a process, not a test
	q, err := Open(ctx, Config{URLs: []string{url}, Prefix: prefix, Logger: quietLogger(), timing: quickTiming})
	if err == nil {
		var c synchronizer.Consumer
		if c, err = q.Consume(ctx, "g"); err == nil {
			var b synchronizer.Batch
			for left := 40; err == nil && left > 0; left -= len(b.Records) {
				b, err = c.Next(ctx, left, 1<<20)
			}
			if err == nil {
				err = b.Ack(ctx)
			}
			for i := 0; err == nil && i < 2; i++ {
				_, err = c.Next(ctx, 40, 1<<20)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("took")
	select {}
}

// quickTiming is for tests that wait for the end of a pin.
var quickTiming = timing{beat: 100 * time.Millisecond, gone: 600 * time.Millisecond, pinTTL: time.Second, handover: 5 * time.Second}

// TestKilledMember: the partitions of a member that was killed in the middle of a
// batch go to the other one, and what it had not acknowledged comes again, in
// order, long before AckWait.
func TestKilledMember(t *testing.T) {
	config := tcpConfig(t, brokers.SharedNATS(t))
	config.timing = quickTiming
	q := openTCP(t, config)
	defer shut(t, q)
	all := keys(40)
	publishTo(t, q, all, 0, 20)

	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victimURL+"="+config.URLs[0], victimPrefix+"="+config.Prefix)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 5))
	require.NoError(t, err)
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen := follow{}
	for _, key := range all {
		seen[key] = 20 // the first batch is acknowledged, so a key may begin anywhere
	}
	last := map[string]int{}
	count := 0
	for count < len(all)*20-40 {
		batch, err := c.Next(ctx, 500, 1<<20)
		require.NoError(t, err, "after %d", count)
		for i := range batch.Records {
			r := &batch.Records[i]
			if before, ok := last[r.Key]; ok {
				require.Equal(t, before+1, numberOf(r), r.Key)
			}
			last[r.Key] = numberOf(r)
			count++
		}
		require.NoError(t, batch.Ack(ctx))
	}
	for _, key := range all {
		if n, ok := last[key]; ok {
			require.Equal(t, 19, n, key)
		}
	}
}

// TestHandover: a member that joins gets partitions, from a member that works on a
// batch only after that is acknowledged; nothing comes twice.
func TestHandover(t *testing.T) {
	config := tcpConfig(t, brokers.SharedNATS(t))
	q := openTCP(t, config)
	defer shut(t, q)
	all := keys(64)
	first, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	publishTo(t, q, all, 0, 5)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen := follow{}
	var batch synchronizer.Batch
	for !seen.complete(all, 5) {
		batch, err = first.Next(ctx, 500, 1<<20)
		require.NoError(t, err)
		seen.see(t, batch.Records)
	}
	second, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	publishTo(t, q, all, 5, 10)
	quiet, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	_, err = second.Next(quiet, 500, 1<<20)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the first member has not acknowledged")
	require.NoError(t, batch.Ack(ctx))

	type got struct {
		member  int
		records []synchronizer.Record
	}
	results := make(chan got)
	reading, enough := context.WithCancel(ctx)
	var readers errgroup.Group
	for i, c := range []synchronizer.Consumer{first, second} {
		readers.Go(func() error {
			for {
				b, err := c.Next(reading, 500, 1<<20)
				if err != nil {
					return nil // enough, or the end of ctx
				}
				if err := b.Ack(ctx); err != nil {
					return err
				}
				select {
				case results <- got{i, b.Records}:
				case <-reading.Done():
					return nil
				}
			}
		})
	}
	count, total := map[int]int{}, 0
	for total < 5*len(all) {
		select {
		case r := <-results:
			seen.see(t, r.records)
			count[r.member] += len(r.records)
			total += len(r.records)
		case <-ctx.Done():
			require.FailNow(t, "records are missing", "%v of %d", count, 5*len(all))
		}
	}
	enough()
	require.NoError(t, readers.Wait())
	require.True(t, seen.complete(all, 10))
	require.Equal(t, 5*len(all), total, "nothing twice")
	require.Greater(t, count[0], len(all), "%v", count)
	require.Greater(t, count[1], len(all), "%v", count)
	owned := 0
	for p := range DefaultPartitions {
		name := fmt.Sprintf("out-%d", p)
		a, b := first.(*member).Owns(name), second.(*member).Owns(name)
		require.NotEqual(t, a, b, name)
		if a {
			owned++
		}
	}
	require.Equal(t, DefaultPartitions/2, owned)
	require.False(t, first.(*member).Owns("in"))
}

// TestInterruptedConnection: what was on its way when the connection broke comes
// again, in order, and what was acknowledged does not.
func TestInterruptedConnection(t *testing.T) {
	config := tcpConfig(t, brokers.SharedNATS(t))
	q := openTCP(t, config)
	defer shut(t, q)
	all := keys(20)
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	tailed, err := q.Tail(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen := follow{}
	const rounds, each = 5, 40
	for round := range rounds {
		publishTo(t, q, all, round*each, (round+1)*each)
		require.NoError(t, q.Publish(ctx, synchronizer.In, numbers("a/c", round, round+1, 8)))
		require.NoError(t, q.read.ForceReconnect())
		require.NoError(t, q.write.ForceReconnect())
		in, err := tailed.Next(ctx)
		require.NoError(t, err)
		require.Len(t, in, 1)
		require.Equal(t, round, numberOf(&in[0]))
		for !seen.complete(all, (round+1)*each) {
			batch, err := c.Next(ctx, 30, 1<<20)
			require.NoError(t, err)
			seen.see(t, batch.Records)
			require.NoError(t, batch.Ack(ctx))
		}
	}
	quiet, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	_, err = c.Next(quiet, 30, 1<<20)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestBrokerThatCannotReset: older servers lack the request to begin anew.
func TestBrokerThatCannotReset(t *testing.T) {
	config := tcpConfig(t, brokers.SharedNATS(t))
	config.cannotReset = true
	q := openTCP(t, config)
	defer shut(t, q)
	all := keys(20)
	publishTo(t, q, all, 0, 10)
	acknowledged := follow{}
	for range 3 {
		c, err := q.Consume(t.Context(), "g")
		require.NoError(t, err)
		batch, err := c.Next(t.Context(), 15, 1<<20)
		require.NoError(t, err)
		acknowledged.see(t, batch.Records)
		require.NoError(t, batch.Ack(t.Context()))
		for range 3 { // taken, and left
			_, err = c.Next(t.Context(), 15, 1<<20)
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
	}
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !acknowledged.complete(all, 10) {
		batch, err := c.Next(ctx, 100, 1<<20)
		require.NoError(t, err)
		acknowledged.see(t, batch.Records)
		require.NoError(t, batch.Ack(ctx))
	}
}

// TestTrimOverTCP: nothing is removed before every partition has a consumer, what
// is acknowledged leaves the disk although other partitions are idle, and a
// partition that nobody acknowledges keeps its own records only, once room is
// scarce.
func TestTrimOverTCP(t *testing.T) {
	config := tcpConfig(t, brokers.SharedNATS(t))
	config.MaxBytes = 1 << 20
	q := openTCP(t, config)
	defer shut(t, q)
	left := func() uint64 {
		stream, err := q.js.Stream(t.Context(), q.streamName(synchronizer.Out))
		require.NoError(t, err)
		return stream.CachedInfo().State.Msgs
	}
	trim := func() { require.NoError(t, q.trimmer.trim(t.Context(), q.streamName(synchronizer.Out))) }
	all := keys(64)
	idle := (partition(all[0], DefaultPartitions) + 1) % DefaultPartitions
	var others []string
	for _, key := range all {
		if partition(key, DefaultPartitions) != idle {
			others = append(others, key)
		}
	}
	publishTo(t, q, others, 0, 2)
	half := &member{q: q, group: "g", stream: q.streamName(synchronizer.Out)}
	require.NoError(t, (&part{m: half, consumer: fmt.Sprintf("g-%d", idle), filter: q.filter(idle)}).ensureConsumer(t.Context()))
	trim()
	require.EqualValues(t, 2*len(others), left())

	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	read := func(n int) {
		for n > 0 {
			batch, err := c.Next(t.Context(), 100, 1<<20)
			require.NoError(t, err)
			require.NoError(t, batch.Ack(t.Context()))
			n -= len(batch.Records)
		}
	}
	read(2 * len(others))
	require.Eventually(t, func() bool { trim(); return left() == 0 }, 5*time.Second, 20*time.Millisecond)
	publishTo(t, q, all[:1], 2, 30) // one partition only
	read(28)
	require.Eventually(t, func() bool { trim(); return left() == 0 }, 5*time.Second, 20*time.Millisecond)

	// Another group stands still in one partition.
	slow, err := q.Consume(t.Context(), "slow")
	require.NoError(t, err)
	require.NoError(t, slow.Close())
	stream, err := q.js.Stream(t.Context(), q.streamName(synchronizer.Out))
	require.NoError(t, err)
	for p := range DefaultPartitions {
		if p != idle {
			require.NoError(t, stream.DeleteConsumer(t.Context(), fmt.Sprintf("slow-%d", p)))
		}
	}
	var held []string
	for _, key := range all {
		if partition(key, DefaultPartitions) == idle {
			held = append(held, key)
		}
	}
	require.NotEmpty(t, held)
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, numbers(held[0], 0, 3, 64)))
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, numbers(all[0], 30, 630, 1000)))
	read(603)
	require.Eventually(t, func() bool { trim(); return left() == 3 }, 5*time.Second, 20*time.Millisecond)
}

// TestLostConsumerOverTCP: consumers and streams that vanish are made again.
func TestLostConsumerOverTCP(t *testing.T) {
	q := openTCP(t, tcpConfig(t, brokers.SharedNATS(t)))
	defer shut(t, q)
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	tailed, err := q.Tail(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	all := keys(20)
	seen := follow{}
	for round := range 3 {
		publishTo(t, q, all, round, round+1)
		for !seen.complete(all, round+1) {
			batch, err := c.Next(ctx, 100, 1<<20)
			require.NoError(t, err)
			seen.see(t, batch.Records)
			require.NoError(t, batch.Ack(ctx))
		}
		require.NoError(t, q.Publish(ctx, synchronizer.In, numbers("a/c", round, round+1, 8)))
		in, err := tailed.Next(ctx)
		require.NoError(t, err)
		require.Equal(t, round, numberOf(&in[0]))
		if round == 1 {
			require.NoError(t, q.js.DeleteStream(ctx, q.streamName(synchronizer.Out)))
			require.NoError(t, q.js.DeleteStream(ctx, q.streamName(synchronizer.In)))
			continue
		}
		names := q.js.(jetstream.StreamConsumerManager)
		for p := range DefaultPartitions {
			require.NoError(t, names.DeleteConsumer(ctx, q.streamName(synchronizer.Out), fmt.Sprintf("g-%d", p)))
		}
		require.NoError(t, names.DeleteConsumer(ctx, q.streamName(synchronizer.In), tailed.(*tail).name))
	}
}
