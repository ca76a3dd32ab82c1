// SPDX-License-Identifier: Apache-2.0

package chunk

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// away is a queue whose broker is away; silent is one that cannot be asked.
type (
	away   struct{ synchronizer.Queue }
	silent struct{ synchronizer.Queue }
)

func (away) Reachable(context.Context) error { return synchronizer.ErrDisconnected }

func TestReachableIsAskedBelow(t *testing.T) {
	for _, test := range []struct {
		below synchronizer.Queue
		want  error
	}{{away{}, synchronizer.ErrDisconnected}, {silent{}, nil}} {
		q, ok := New(test.below, Options{MaxRecord: 1 << 20}).(synchronizer.Reachable)
		require.True(t, ok)
		require.ErrorIs(t, q.Reachable(t.Context()), test.want)
	}
}
