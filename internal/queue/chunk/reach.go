// SPDX-License-Identifier: Apache-2.0

package chunk

import (
	"context"

	"synchronizer"
)

var _ synchronizer.Reachable = (*Queue)(nil)

// Reachable implements synchronizer.Reachable, as far as the queue below does.
func (q *Queue) Reachable(ctx context.Context) error {
	if below, ok := q.Queue.(synchronizer.Reachable); ok {
		return below.Reachable(ctx)
	}
	return nil
}
