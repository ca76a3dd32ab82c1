// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

func open(t testing.TB, config EmbeddedConfig) *Queue {
	t.Helper()
	if config.Logger == nil {
		config.Logger = quietLogger()
	}
	q, err := OpenEmbedded(t.Context(), config)
	require.NoError(t, err)
	return q
}

func shut(t testing.TB, q *Queue) {
	t.Helper()
	require.NoError(t, q.Close(context.WithoutCancel(t.Context())))
}

func numbers(key string, from, to, size int) []synchronizer.Record {
	records := make([]synchronizer.Record, to-from)
	for i := range records {
		payload := make([]byte, size)
		binary.BigEndian.PutUint64(payload, uint64(from+i))
		records[i] = synchronizer.Record{Key: key, Payload: payload}
	}
	return records
}

func numberOf(r *synchronizer.Record) int { return int(binary.BigEndian.Uint64(r.Payload)) }

// TestFullStream: when the stream is full, publishers wait, and go on when
// records are acknowledged; nothing is lost and the order holds.
func TestFullStream(t *testing.T) {
	q := open(t, EmbeddedConfig{Dir: t.TempDir(), MaxBytes: 1 << 20, MaxPayload: 64 << 10})
	defer shut(t, q)
	const n = 1000 // of 4 KiB: four times what fits
	ended, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := q.Publish(ended, synchronizer.Out, numbers("a/c", 0, n, 4<<10))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "maximum bytes exceeded")

	published := make(chan error, 1)
	go func() { published <- q.Publish(t.Context(), synchronizer.Out, numbers("a/c", 0, n, 4<<10)) }()
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	// Repetitions are allowed; each number must follow the one before it.
	last, seen := -1, map[int]bool{}
	for len(seen) < n || last != n-1 {
		batch, err := c.Next(t.Context(), 50, 1<<20)
		require.NoError(t, err)
		for i := range batch.Records {
			last = numberOf(&batch.Records[i])
			seen[last] = true
		}
		require.NoError(t, batch.Ack(t.Context()))
	}
	require.NoError(t, <-published)
}

// TestRedelivery: what is not acknowledged in time comes again in order, and
// acknowledging it ends that.
func TestRedelivery(t *testing.T) {
	q := open(t, EmbeddedConfig{Dir: t.TempDir(), ackWait: 300 * time.Millisecond})
	defer shut(t, q)
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, numbers("a/c", 0, 40, 8)))
	var first []int
	for len(first) < 40 {
		batch, err := c.Next(t.Context(), 100, 1<<20)
		require.NoError(t, err)
		for i := range batch.Records {
			first = append(first, numberOf(&batch.Records[i]))
		}
	}
	var again []int
	var batch synchronizer.Batch
	for len(again) < 40 {
		batch, err = c.Next(t.Context(), 100, 1<<20)
		require.NoError(t, err)
		for i := range batch.Records {
			again = append(again, numberOf(&batch.Records[i]))
		}
	}
	require.Equal(t, first, again)
	require.NoError(t, batch.Ack(t.Context()))
	quiet, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
	defer cancel()
	_, err = c.Next(quiet, 100, 1<<20)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestTrim: acknowledged records leave the disk.
func TestTrim(t *testing.T) {
	q := open(t, EmbeddedConfig{Dir: t.TempDir()})
	defer shut(t, q)
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, numbers("a/c", 0, 500, 1000)))
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	for n := 0; n < 500; {
		batch, err := c.Next(t.Context(), 100, 1<<20)
		require.NoError(t, err)
		n += len(batch.Records)
		require.NoError(t, batch.Ack(t.Context()))
	}
	require.Eventually(t, func() bool {
		stream, err := q.js.Stream(t.Context(), q.streamName(synchronizer.Out))
		return err == nil && stream.CachedInfo().State.Msgs == 0
	}, 5*time.Second, 20*time.Millisecond)
}

// TestLostConsumer: a consumer that vanishes on the broker is made again, and a
// tail goes on behind what it has returned.
func TestLostConsumer(t *testing.T) {
	q := open(t, EmbeddedConfig{Dir: t.TempDir()})
	defer shut(t, q)
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	tailed, err := q.Tail(t.Context())
	require.NoError(t, err)
	for round := range 3 {
		records := numbers("a/c", round, round+1, 8)
		require.NoError(t, q.Publish(t.Context(), synchronizer.Out, records))
		require.NoError(t, q.Publish(t.Context(), synchronizer.In, records))
		batch, err := c.Next(t.Context(), 10, 1<<20)
		require.NoError(t, err)
		require.Len(t, batch.Records, 1)
		require.Equal(t, round, numberOf(&batch.Records[0]))
		require.NoError(t, batch.Ack(t.Context()))
		in, err := tailed.Next(t.Context())
		require.NoError(t, err)
		require.Len(t, in, 1)
		require.Equal(t, round, numberOf(&in[0]))
		// The trimmer must have removed it, or the new consumer begins at 0.
		require.Eventually(t, func() bool {
			stream, err := q.js.Stream(t.Context(), q.streamName(synchronizer.Out))
			return err == nil && stream.CachedInfo().State.Msgs == 0
		}, 5*time.Second, 10*time.Millisecond)
		require.NoError(t, q.js.DeleteConsumer(t.Context(), q.streamName(synchronizer.Out), "g"))
		require.NoError(t, q.js.DeleteConsumer(t.Context(), q.streamName(synchronizer.In), tailed.(*tail).name))
	}
}

// TestAckOfAnEarlierDelivery: it is refused at once, and spoils nothing for the
// deliveries that follow.
func TestAckOfAnEarlierDelivery(t *testing.T) {
	q := open(t, EmbeddedConfig{Dir: t.TempDir()})
	defer shut(t, q)
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, numbers("a/c", 0, 100, 8)))
	next := func(c synchronizer.Consumer, from int) synchronizer.Batch {
		batch, err := c.Next(t.Context(), 10, 1<<20)
		require.NoError(t, err)
		require.Equal(t, from, numberOf(&batch.Records[0]))
		return batch
	}
	join := func() synchronizer.Consumer {
		c, err := q.Consume(t.Context(), "g")
		require.NoError(t, err)
		return c
	}
	first := join()
	held := next(first, 0)
	held = next(first, len(held.Records))
	require.NoError(t, first.Close())

	second := join()
	begun := next(second, 0)
	require.ErrorContains(t, held.Ack(t.Context()), "begun anew")
	require.NoError(t, begun.Ack(t.Context()))
	rest := next(second, len(begun.Records))
	require.NoError(t, rest.Ack(t.Context()))
	require.NoError(t, second.Close())
	next(join(), len(begun.Records)+len(rest.Records))
}

func TestDirectory(t *testing.T) {
	t.Run("in use", func(t *testing.T) {
		dir := t.TempDir()
		q := open(t, EmbeddedConfig{Dir: dir})
		_, err := OpenEmbedded(t.Context(), EmbeddedConfig{Dir: dir, Logger: quietLogger()})
		require.ErrorContains(t, err, dir+": another process uses it")
		shut(t, q)
		shut(t, open(t, EmbeddedConfig{Dir: dir}))
	})
	t.Run("made private", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a", "queue")
		shut(t, open(t, EmbeddedConfig{Dir: dir}))
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	})
	t.Run("is a file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		_, err := OpenEmbedded(t.Context(), EmbeddedConfig{Dir: path, Logger: quietLogger()})
		require.ErrorContains(t, err, "not a directory")
	})
	t.Run("not writable", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "jetstream"), nil, 0o600))
		_, err := OpenEmbedded(t.Context(), EmbeddedConfig{Dir: dir, Logger: quietLogger()})
		require.ErrorContains(t, err, "starting broker")
	})
	t.Run("unreadable stream", func(t *testing.T) {
		dir := t.TempDir()
		q := open(t, EmbeddedConfig{Dir: dir})
		require.NoError(t, q.Publish(t.Context(), synchronizer.Out, numbers("a/c", 0, 1, 8)))
		shut(t, q)
		meta := filepath.Join(dir, "jetstream", "$G", "streams", "synchronizer-out", "meta.inf")
		require.NoError(t, os.WriteFile(meta, []byte("garbage"), 0o600))
		_, err := OpenEmbedded(t.Context(), EmbeddedConfig{Dir: dir, Logger: quietLogger()})
		require.ErrorContains(t, err, "files of stream synchronizer-out cannot be read")
	})
	t.Run("none", func(t *testing.T) {
		_, err := OpenEmbedded(t.Context(), EmbeddedConfig{})
		require.ErrorIs(t, err, synchronizer.ErrInvalid)
	})
	t.Run("too small", func(t *testing.T) {
		_, err := OpenEmbedded(t.Context(), EmbeddedConfig{Dir: t.TempDir(), MaxBytes: 1 << 20})
		require.ErrorIs(t, err, synchronizer.ErrInvalid)
	})
}

const victimDir = "SYNCHRONIZER_TEST_VICTIM_DIR"

// victim publishes for ever and writes a byte for each record that was
// accepted.
func victim(dir string) {
	q, err := OpenEmbedded(context.Background(), EmbeddedConfig{Dir: dir, Logger: quietLogger()}) // a process, not a test
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i := 0; ; i += 10 {
		if err := q.Publish(context.Background(), synchronizer.Out, numbers("a/c", i, i+10, 2048)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = os.Stdout.Write(make([]byte, 10))
	}
}

// TestKill: what was accepted is there after the process was killed.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.ReadFull(out, make([]byte, 3000))
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	_ = cmd.Wait() // "signal: killed"
	accepted := 3000 + len(rest)

	q := open(t, EmbeddedConfig{Dir: dir})
	defer shut(t, q)
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	for n := 0; n < accepted; {
		batch, err := c.Next(t.Context(), 500, 8<<20)
		require.NoError(t, err)
		for i := range batch.Records {
			require.Equal(t, n, numberOf(&batch.Records[i]))
			n++
		}
		require.NoError(t, batch.Ack(t.Context()))
	}
}
