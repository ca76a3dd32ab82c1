// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"synchronizer"
)

func TestVarint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1<<31-1).Draw(t, "n")
		require.Equal(t, len(binary.AppendVarint(nil, int64(n))), varint(n))
	})
	for _, n := range []int{0, 63, 64, 8191, 8192, 1<<31 - 1} {
		require.Equal(t, len(binary.AppendVarint(nil, int64(n))), varint(n), "%d", n)
	}
}

// TestRecordThere and back: all but empty properties, in memory of its own.
func TestRecordThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		record := rapid.Custom(func(t *rapid.T) synchronizer.Record {
			r := synchronizer.Record{Key: rapid.String().Draw(t, "key"), Payload: rapid.SliceOf(rapid.Byte()).Draw(t, "payload")}
			for name, value := range rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "properties") {
				r.Properties = append(r.Properties, synchronizer.Property{Name: name, Value: value})
			}
			return r
		})
		records := rapid.SliceOfN(record, 1, 5).Draw(t, "records")
		memory := newArena(records)
		size := cap(memory.bytes)
		out := make([]kgo.Record, len(records))
		for i := range records {
			memory.fill(&out[i], "t", &records[i])
		}
		require.Equal(t, size, cap(memory.bytes), "nothing was moved")
		names := partitionNames{topic: "t"}
		for i := range records {
			payload := string(records[i].Payload)
			for j := range records[i].Payload {
				records[i].Payload[j]++ // the caller's again
			}
			back := fromKafka(&out[i], &names)
			require.Equal(t, payload, string(back.Payload))
			require.Equal(t, records[i].Key, back.Key)
			require.Equal(t, present(&records[i]), present(&back))
			require.Len(t, back.Properties, len(present(&records[i])))
			require.Equal(t, "t-0", back.Partition)
		}
	})
}
