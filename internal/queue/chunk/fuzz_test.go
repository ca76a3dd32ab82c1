// SPDX-License-Identifier: Apache-2.0

package chunk

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"synchronizer"
)

// FuzzJoin feeds a reader with chunks that contradict each other in every way.
// Each line of the input is one record: id, index, count and payload, parted by
// blanks; a line that begins with "+" lets time pass.
func FuzzJoin(f *testing.F) {
	f.Add([]byte("a 0 2 x\na 1 2 y\na 1 2 y\n"))
	f.Add([]byte("a 0 1 x\n+\nb 0 9999999 x\nb 9999998 9999999 x\n"))
	f.Add([]byte("a -1 2 x\na 2 2 x\na 99999999999999999999 1 x\n  \n"))
	whole := synchronizer.Record{Key: "k", Payload: []byte("0123456789")}
	id := identity(&whole)
	f.Add([]byte(id + " 0 2 01234\n" + id + " 0 2 56789\n" + id + " 1 2 56789\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		const most = 1 << 10
		o := &options{
			Options{MaxRecord: limit, MaxSetBytes: 512, MaxBytes: most, Expire: time.Minute, Drop: func(synchronizer.DropReason, string) {}},
			semaphore.NewWeighted(most),
		}
		j := newJoiner(o, false)
		now := time.Unix(0, 0)
		for n, line := range bytes.Split(input, []byte("\n")) {
			if bytes.HasPrefix(line, []byte("+")) {
				now = now.Add(40 * time.Second)
				j.expire(now)
				continue
			}
			fields := append(bytes.SplitN(line, []byte(" "), 4), nil, nil, nil, nil)
			r := synchronizer.Record{Key: "k", Payload: fields[3], Properties: []synchronizer.Property{
				{Name: event, Value: eventChunk},
				{Name: propertyID, Value: string(fields[0])},
				{Name: propertyIndex, Value: string(fields[1])},
				{Name: propertyCount, Value: string(fields[2])},
			}}
			if !isChunk(&r) {
				continue
			}
			for _, got := range j.add([]synchronizer.Record{r}, uint64(n+1), now) {
				require.Equal(t, string(fields[0]), identity(&got), "only what was split is joined")
			}
			held := int64(0)
			for _, s := range j.open {
				held += s.held
			}
			require.LessOrEqual(t, held, int64(most))
			require.Less(t, j.before(uint64(n+1)), uint64(n+2))
		}
		require.LessOrEqual(t, len(j.open), most/chunkOverhead, strconv.Itoa(len(j.open)))
		j.close()
		require.True(t, o.budget.TryAcquire(most), "everything held was given back")
		require.Empty(t, j.open)
	})
}
