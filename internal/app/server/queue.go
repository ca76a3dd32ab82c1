// SPDX-License-Identifier: Apache-2.0

package server

import "synchronizer"

// Queue is the backend's own, for what runs in its process and speaks to clusters
// as another producer on the queue would. It ends with Run.
func (b *Backend) Queue() synchronizer.Queue { return b.queue }
