// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/test/brokers"
)

// prompt is below the time after which a reader takes a silent request for lost.
const prompt = pullSilence - 2*time.Second

func nextNumber(t *testing.T, c synchronizer.Consumer, maxBytes int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), prompt)
	defer cancel()
	batch, err := c.Next(ctx, 10, maxBytes)
	require.NoError(t, err)
	require.Len(t, batch.Records, 1)
	return numberOf(&batch.Records[0])
}

// TestUsedUpBytes: a reader goes on at once when what it got is exactly as large as
// what it has asked for, which the broker does not tell.
func TestUsedUpBytes(t *testing.T) {
	q := open(t, EmbeddedConfig{Dir: t.TempDir()})
	defer shut(t, q)
	const size = 1 << 10
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, numbers("a/c", 0, 2, size)))
	exact := size
	for i, more := range []int{0, -1, 0, 1} { // the first finds out
		c, err := q.Consume(t.Context(), fmt.Sprintf("g%d", i))
		require.NoError(t, err)
		require.Equal(t, 0, nextNumber(t, c, exact+more))
		subject, _ := q.subject(synchronizer.Out, "a/c")
		exact = len(subject) + len(c.(*consumer).ackReply) + size
		require.Equal(t, 1, nextNumber(t, c, exact+more))
		require.NoError(t, c.Close())
	}
}

// TestUsedUpBytesOfAPartition is the same over TCP, where the broker adds a header to
// what it has counted.
func TestUsedUpBytesOfAPartition(t *testing.T) {
	q := openTCP(t, tcpConfig(t, brokers.SharedNATS(t)))
	defer shut(t, q)
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	m, key := c.(*member), keys(1)[0]
	p := m.parts[partition(key, len(m.parts))]
	room := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return p.room
	}
	bare := func() int { // of a record without headers
		m.mu.Lock()
		defer m.mu.Unlock()
		subject, _ := q.subject(synchronizer.Out, key)
		return len(subject) + len(p.returned.reply)
	}
	n := 0
	pass := func(size int, properties []synchronizer.Property) {
		r := numbers(key, n, n+1, size)
		r[0].Properties = properties
		require.NoError(t, q.Publish(t.Context(), synchronizer.Out, r))
		require.Equal(t, n, nextNumber(t, c, 8<<20))
		n++
	}
	for _, properties := range [][]synchronizer.Property{nil, {{Name: "event", Value: "PutObject"}}} {
		pass(100, properties)
		before := room()
		pass(100, properties)
		size := before - room()
		if properties == nil {
			require.Equal(t, bare()+100, size)
		}
		pass(room()-(size-100), properties) // just what is left
		pass(100, properties)
	}
}
