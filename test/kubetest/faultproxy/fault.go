// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is one way to go wrong. After, where a fault has it, is how much passes
// before: events of a watch, bytes of any other answer; an answer that ends
// earlier is not struck.
type Fault interface {
	fmt.Stringer
	plan() plan
}

// plan is what a fault does to one request; any part may be missing.
type plan struct {
	// answer replaces that of the API server, which is not asked.
	answer func(*exchange) outcome
	// strike happens once, when after events or bytes have passed.
	strike func(*exchange) outcome
	after  int
	// drops tells which events of a watch do not pass; struck is how many
	// this fault has kept back so far, in all requests.
	drops func(e event, struck int) bool
	// slow limits how fast the answer passes.
	slow *Slow
}

// outcome is how a request goes on after a strike.
type outcome int

const (
	goOn  outcome = iota
	end           // the answer ends in order
	hang          // nothing more is said until the client goes
	abort         // the stream ends without its end (RST_STREAM; on HTTP/1.1 the connection)
)

// Answer is an HTTP error from the API server, with a Status as its body.
type Answer struct {
	Code       int
	Reason     metav1.StatusReason
	Message    string
	RetryAfter time.Duration // in full seconds; 0 = no such header
}

// Answers that API servers give.
var (
	// Gone says that a resourceVersion is too old, as HTTP status.
	Gone = Answer{Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old resource version: 1 (2)"}
	// ExpiredContinue says so about a continue token; arm it for List(…).Continued().
	ExpiredContinue = Answer{Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "The provided continue parameter is too old to display a consistent list result."}
	InternalError   = Answer{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "Internal error occurred: etcdserver: request timed out"}
	Unavailable     = Answer{Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: "the server is currently unable to handle the request"}
	Forbidden       = Answer{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "not allowed, as the test wants it"}
	// NoStreamingList is what a server without the feature says to
	// Watch(…).StreamingList().
	NoStreamingList = Answer{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}
)

// TooManyRequests is 429 with the header Retry-After.
func TooManyRequests(retryAfter time.Duration) Answer {
	return Answer{
		Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		Message: "Too many requests, please try again later.", RetryAfter: retryAfter,
	}
}

func (f Answer) String() string { return "answer " + strconv.Itoa(f.Code) }

func (f Answer) status() metav1.Status {
	s := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: f.Message, Reason: f.Reason, Code: int32(f.Code),
	}
	if f.RetryAfter > 0 {
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(f.RetryAfter / time.Second)}
	}
	return s
}

func (f Answer) plan() plan {
	return plan{answer: func(e *exchange) outcome {
		if f.RetryAfter > 0 {
			e.w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
		}
		e.w.Header().Set("Content-Type", "application/json")
		e.start(f.Code)
		e.send(encode(f.status()))
		return end
	}}
}

// GoneInStream is 410 as an event of a watch that was answered 200.
type GoneInStream struct{ After int }

func (f GoneInStream) String() string { return "410 in stream" }
func (f GoneInStream) plan() plan     { return ErrorInStream{After: f.After, Answer: Gone}.plan() }

// ErrorInStream is any error as the last event of a watch.
type ErrorInStream struct {
	After  int
	Answer Answer
}

func (f ErrorInStream) String() string { return strconv.Itoa(f.Answer.Code) + " in stream" }

func (f ErrorInStream) plan() plan {
	return plan{after: f.After, strike: func(e *exchange) outcome {
		e.send(encode(map[string]any{"type": "ERROR", "object": f.Answer.status()}))
		return end
	}}
}

// GarbageLine is a line in a watch that is not JSON; the watch goes on behind it.
type GarbageLine struct{ After int }

func (f GarbageLine) String() string { return "garbage line" }
func (f GarbageLine) plan() plan     { return saying(f.After, "\x00\xff this is no event }{\n", goOn) }

// HalfLine is the first half of an event, and then the orderly end of the watch.
type HalfLine struct{ After int }

func (f HalfLine) String() string { return "half line" }
func (f HalfLine) plan() plan {
	return saying(f.After, `{"type":"MODIFIED","object":{"kind":"Half","metadata":{"name":"ha`, end)
}

// UnknownEvent is an event of type FOO with an object; the watch goes on.
type UnknownEvent struct{ After int }

func (f UnknownEvent) String() string { return "unknown event" }
func (f UnknownEvent) plan() plan {
	return saying(f.After, `{"type":"FOO","object":{"kind":"Foo","apiVersion":"example.org/v1","metadata":{"name":"foo","resourceVersion":"1"}}}`+"\n", goOn)
}

func saying(after int, text string, then outcome) plan {
	return plan{after: after, strike: func(e *exchange) outcome {
		e.send([]byte(text))
		return then
	}}
}

// End ends an answer in order: a watch that stops at once, a page of a list that
// is cut off without an error of the transport.
type End struct{ After int }

func (f End) String() string { return "end" }
func (f End) plan() plan {
	return plan{after: f.After, strike: func(*exchange) outcome { return end }}
}

// Silent opens the answer, lets After pass, and then says nothing until the
// client goes. The connection is alive: other requests on it are answered.
type Silent struct{ After int }

func (f Silent) String() string { return "silent" }
func (f Silent) plan() plan {
	return plan{after: f.After, strike: func(*exchange) outcome { return hang }}
}

// BlackHole takes the request and never answers, not even with a status.
type BlackHole struct{}

func (f BlackHole) String() string { return "black hole" }
func (f BlackHole) plan() plan {
	return plan{answer: func(*exchange) outcome { return hang }}
}

// Cut resets the TCP connection of the request, and so all others on it. After
// -1 resets it instead of an answer.
type Cut struct{ After int }

func (f Cut) String() string { return "cut" }
func (f Cut) plan() plan     { return onConnection(f.After, (*connection).reset, abort) }

// HalfClose ends the proxy's direction of the TCP connection without the end of
// TLS or HTTP; what the client says is still taken.
type HalfClose struct{ After int }

func (f HalfClose) String() string { return "half-close" }
func (f HalfClose) plan() plan     { return onConnection(f.After, (*connection).halfClose, hang) }

// DeadConnection makes the request's TCP connection deaf and dumb without
// closing it, as a load balancer does that forgot it: no byte passes any more,
// neither answers nor pings. New connections work. After -1 does so instead of
// an answer. See also Proxy.KillConnections.
type DeadConnection struct{ After int }

func (f DeadConnection) String() string { return "dead connection" }
func (f DeadConnection) plan() plan     { return onConnection(f.After, (*connection).kill, hang) }

func onConnection(after int, do func(*connection), then outcome) plan {
	strike := func(e *exchange) outcome {
		e.drain()
		do(e.connection)
		return then
	}
	if after < 0 {
		return plan{answer: func(e *exchange) outcome {
			do(e.connection)
			return then
		}}
	}
	return plan{after: after, strike: strike}
}

// Drop keeps back events of a watch, as if the client had been away and history
// was compacted meanwhile. Empty fields match all.
type Drop struct {
	Type            string // ADDED, MODIFIED, DELETED, BOOKMARK
	Namespace, Name string
	Events          int // at most so many, in all watches; 0 = all
}

func (f Drop) String() string { return "drop" }
func (f Drop) plan() plan {
	return plan{drops: func(e event, struck int) bool {
		return (f.Events == 0 || struck < f.Events) &&
			(f.Type == "" || f.Type == e.Type) &&
			(f.Namespace == "" || f.Namespace == e.Object.Metadata.Namespace) &&
			(f.Name == "" || f.Name == e.Object.Metadata.Name)
	}}
}

// BookmarksOnly keeps back all events of a watch but bookmarks.
type BookmarksOnly struct{}

func (f BookmarksOnly) String() string { return "bookmarks only" }
func (f BookmarksOnly) plan() plan {
	return plan{drops: func(e event, _ int) bool { return e.Type != "BOOKMARK" }}
}

// Slow lets an answer pass in pieces of Bytes (default 1024) with a pause before each.
type Slow struct {
	Bytes int
	Pause time.Duration
}

func (f Slow) String() string { return "slow" }
func (f Slow) plan() plan {
	if f.Bytes <= 0 {
		f.Bytes = 1024
	}
	return plan{slow: &f}
}

// event is what faults look at in a line of a watch.
type event struct {
	Type   string `json:"type"`
	Object struct {
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	} `json:"object"`
}

func readEvent(line []byte) event {
	var e event
	_ = json.Unmarshal(line, &e) // what cannot be read has no type, and passes
	return e
}

// encode returns value as a line of JSON.
func encode(value any) []byte {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(value); err != nil {
		_, _ = io.WriteString(&b, err.Error()+"\n")
	}
	return b.Bytes()
}
