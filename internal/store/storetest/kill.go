// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// childVariable tells a child process of Kill where its database is.
const childVariable = "STORETEST_KILL_LOCATION"

// killRows is how many rows each transaction of the child has.
const killRows = 40

// Main makes the process a child of Kill if it was started as one, and then
// does not return.
func Main(open func(ctx context.Context, location string) (synchronizer.Store, error)) {
	location := os.Getenv(childVariable)
	if location == "" {
		return
	}
	fmt.Fprintln(os.Stderr, writeForEver(location, open))
	os.Exit(1)
}

// writeForEver writes transactions and prints the number of each that was
// committed.
func writeForEver(location string, open func(context.Context, string) (synchronizer.Store, error)) error {
	ctx := context.Background()
	store, err := open(ctx, location)
	if err != nil {
		return err
	}
	for round := uint64(1); ; round++ {
		rows := make([]synchronizer.Row, killRows)
		for i := range rows {
			rows[i] = live(killKey(i), round, map[string]string{"round": strconv.FormatUint(round, 10)})
			rows[i].Body = append(rows[i].Body, strings.Repeat(" ", int(round)%20*1000)...)
		}
		if err := store.Update(ctx, func(tx synchronizer.Tx) error { return put(ctx, tx, rows) }); err != nil {
			return err
		}
		fmt.Println(round)
	}
}

func killKey(i int) synchronizer.ObjectKey { return key(prod, pods, "kill", fmt.Sprintf("row-%d", i)) }

// Kill kills a process in the middle of its writes, some times over, and checks
// that every committed transaction is there and every other one is not in part.
func Kill(t *testing.T, location string, reopen func(t *testing.T) Backend) {
	for kill := range 4 {
		committed := writeAndKill(t, location, 3+7*kill)
		b := reopen(t)
		q := synchronizer.ObjectQuery{Limit: killRows + 1}
		page, err := b.Objects(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, page.Rows, killRows)
		round := page.Rows[0].Order.Seq
		require.GreaterOrEqual(t, round, committed, "a committed transaction is lost")
		require.LessOrEqual(t, round, committed+1)
		for _, row := range page.Rows {
			require.Equal(t, round, row.Order.Seq, "a transaction is there in part")
		}
		q.Labels = []synchronizer.LabelRequirement{in("round", strconv.FormatUint(round, 10))}
		page, err = b.Objects(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, page.Rows, killRows)
		require.NoError(t, b.Close())
	}
}

// writeAndKill gives the last transaction that the child said was committed.
func writeAndKill(t *testing.T, location string, after int) (committed uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), childVariable+"="+location)
	stderr := &strings.Builder{}
	child.Stderr = stderr
	pipe, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	out := bufio.NewReader(pipe)
	for lines := 0; ; lines++ {
		if lines == after {
			require.NoError(t, child.Process.Kill()) // and read what it had said before
		}
		line, err := out.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		committed, err = strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		require.NoError(t, err)
	}
	_ = child.Wait()
	require.GreaterOrEqual(t, committed, uint64(after), "the child ended by itself: %s", stderr)
	return committed
}
