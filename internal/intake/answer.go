// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// refusal is an answer other than 202. The text is for the caller, the cause
// for the log.
type refusal struct {
	status     int
	text       string
	retryAfter string
	allow      string
	cause      error
}

func unauthorized(text string) *refusal {
	return &refusal{status: http.StatusUnauthorized, text: text}
}

// unavailable is the answer to who should keep its report and come back.
func unavailable(text string) *refusal {
	return &refusal{status: http.StatusTooManyRequests, text: text, retryAfter: "60"}
}

// refuse answers and ends the connection. net/http sends the answer before it
// looks at what is left of the request; that is thrown away, for a moment and at
// most 256 KiB, because closing a connection with unread data in it would destroy
// the answer on its way.
func (x *exchange) refuse(refused *refusal) {
	x.metrics.request(x.resource, refused.status)
	x.refusals.note(x, refused)
	h := x.w.Header()
	h.Set("Connection", "close")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	if refused.retryAfter != "" {
		h.Set("Retry-After", refused.retryAfter)
	}
	if refused.allow != "" {
		h.Set("Allow", refused.allow)
	}
	if refused.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(x.limits.drain))
	x.w.WriteHeader(refused.status)
	_, _ = io.WriteString(x.w, refused.text+"\n")
}

// refusalPause is the time between two log lines about one status.
const refusalPause = 10 * time.Second

// refusals writes what was refused into the log, but no flood.
type refusals struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[int]time.Time
	more map[int]int // not logged since
}

func (l *refusals) note(x *exchange, refused *refusal) {
	more, ok := l.admit(refused.status, time.Now())
	if !ok {
		return
	}
	attrs := []any{"status", refused.status, "reason", refused.text, "method", x.r.Method, "resource", x.resource, "from", x.r.RemoteAddr}
	if x.caller != "" {
		attrs = append(attrs, "caller", x.caller)
	}
	if refused.cause != nil {
		attrs = append(attrs, "error", refused.cause)
	}
	if more > 0 {
		attrs = append(attrs, "notLogged", more)
	}
	l.log.Warn("report refused", attrs...)
}

func (l *refusals) admit(status int, now time.Time) (more int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last, l.more = map[int]time.Time{}, map[int]int{}
	}
	if last, seen := l.last[status]; seen && now.Sub(last) < refusalPause {
		l.more[status]++
		return 0, false
	}
	more = l.more[status]
	l.last[status], l.more[status] = now, 0
	return more, true
}

// lines passes what net/http has to say on to the log.
type lines struct{ log *slog.Logger }

func (l lines) Write(p []byte) (int, error) {
	l.log.Debug("HTTP endpoint: " + strings.TrimSpace(string(p)))
	return len(p), nil
}
