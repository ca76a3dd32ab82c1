// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"synchronizer"
)

// errUnanswered is errSilent for a watch that was not even begun.
var errUnanswered = fmt.Errorf("%w, not even an answer", errSilent)

// watchEnd is the label under which the end of a watch is counted.
func watchEnd(err error) string {
	var refused *statusError
	switch {
	case err == nil:
		return "closed"
	case errors.Is(err, synchronizer.ErrGone):
		return "gone"
	case errors.As(err, &refused):
		return "refused"
	case errors.Is(err, errUnanswered):
		return "unanswered"
	case errors.Is(err, errSilent):
		return "silent"
	case errors.Is(err, synchronizer.ErrInvalid):
		return "unreadable"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "truncated"
	case strings.Contains(err.Error(), "client connection lost"): // net/http has no name for it
		return "dead"
	}
	return "error"
}

// unknownEvents counts the events that one watch passes over, and logs the first.
func (c *Cluster) unknownEvents(kind synchronizer.Kind) func(typ string) {
	said := false
	return func(typ string) {
		c.metrics.unknown.Inc()
		if !said {
			c.log.Warn("event of a type that is not known is passed over", "kind", kind.String(), "type", typ)
		}
		said = true
	}
}
