// SPDX-License-Identifier: Apache-2.0

package server

import (
	"synchronizer/internal/config"
	"synchronizer/internal/relay"
)

// replayOf gives the limits of the backlog; nil: off.
func replayOf(r *config.Replay) *relay.ReplayLimits {
	if !r.Enabled {
		return nil
	}
	return &relay.ReplayLimits{
		TTL: span(r.TTLSeconds), MaxMessages: r.MaxMessages, MaxMessagesPerClient: r.MaxMessagesPerClient, MaxBytes: r.MaxBytes,
	}
}
