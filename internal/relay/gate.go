// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"

	"synchronizer"
)

// alertsResource is the kind that the gates of an account are about.
const alertsResource = "runtimealerts"

// accounts makes a set of names.
func accounts(names []string) map[string]struct{} {
	set := make(map[string]struct{}, len(names))
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}

// pass says whether a message of the client may go to the backend; what may not is
// counted and named.
func (c *connection) pass(m *synchronizer.Message) bool {
	o := &c.server.options
	switch {
	case o.MaxObjectSize > 0 && int64(len(m.Body)) > o.MaxObjectSize:
		o.Drop(synchronizer.DropTooLarge, fmt.Sprintf("%s: %d bytes are above MAX_OBJECT_SIZE", about(m), len(m.Body)))
	case m.Kind.Resource != alertsResource:
		return true
	case c.skipAlerts:
		o.Drop(synchronizer.DropAlertsSkipped, about(m))
	case !c.account.Has():
		o.Drop(synchronizer.DropNoFeature, about(m))
	default:
		return true
	}
	return false
}

// openGates prepares pass for a connection; close must be called when it has ended.
func (c *connection) openGates(claim Claim) (closeGates func()) {
	_, c.skipAlerts = c.server.skipAlerts[c.id().Account]
	c.account = c.server.options.Features.connect(claim)
	return c.account.leave
}
