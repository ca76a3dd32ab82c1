// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// script is a connection whose reads give what was drawn beforehand, as far as
// the buffer has room.
type script struct {
	net.Conn
	arrived [][]byte
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.arrived) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.arrived[0])
	if s.arrived[0] = s.arrived[0][n:]; len(s.arrived[0]) == 0 {
		s.arrived = s.arrived[1:]
	}
	return n, nil
}

// TestReadAheadChangesNothing: however bytes arrive and are asked for, they come
// in their order, and a connection from which all was read holds no chunk.
func TestReadAheadChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{1, 100, readerBytes - 1, readerBytes, readerBytes + 1, 3 * readerBytes, chunkBytes, 2*chunkBytes + 5}), 0, 12).Draw(t, "arriving")
		asked := rapid.SliceOfN(rapid.SampledFrom([]int{1, 7, readerBytes, readerBytes + 100, chunkBytes, 2 * chunkBytes}), 1, 4).Draw(t, "asked")
		inner := &script{}
		var want []byte
		for i, size := range sizes {
			part := make([]byte, size)
			for j := range part {
				part[j] = byte(31*i + j%251)
			}
			want = append(want, part...)
			inner.arrived = append(inner.arrived, part)
		}
		c := &conn{Conn: inner}
		var got bytes.Buffer
		for i := 0; ; i++ {
			p := make([]byte, asked[i%len(asked)])
			n, err := c.Read(p)
			got.Write(p[:n])
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Positive(t, n)
		}
		require.True(t, bytes.Equal(want, got.Bytes()))
		require.Nil(t, c.chunk)
	})
}
