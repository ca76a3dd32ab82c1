// SPDX-License-Identifier: Apache-2.0

// Package traceparent knows the text by which a message says to which trace it
// belongs: the traceparent of W3C Trace Context, version 00. It is apart from
// package tracing so that who only carries the text links nothing else.
package traceparent

import (
	"context"
	"strings"
)

// Name is the property of a record and the key of a frame.
const Name = "traceparent"

// Length is that of version 00, "00-<32 digits>-<16 digits>-<2 digits>".
const Length = 55

// Valid reports whether s is a traceparent of version 00 with a trace and a span.
// Newer versions are not read: this program is not asked to know them.
func Valid(s string) bool {
	if len(s) != Length || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return false
	}
	return digits(s[3:35], true) && digits(s[36:52], true) && digits(s[53:], false)
}

// digits reports whether s has lower-case hexadecimal digits only, and if asked, one
// that is not 0.
func digits(s string, some bool) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
		some = some && c == '0'
	}
	return !some
}

// Clean gives s if it is valid, else "": as W3C says, what cannot be read is as if
// it were not there.
func Clean(s string) string {
	if s == "" || !Valid(s) {
		return ""
	}
	return s
}

// TraceID gives the trace of a valid traceparent, else "".
func TraceID(s string) string {
	if !Valid(s) {
		return ""
	}
	return s[3:35]
}

type contextKey struct{}

// NewContext gives a context of work on a message; an empty text changes nothing.
func NewContext(ctx context.Context, s string) context.Context {
	if s == "" {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, s)
}

// FromContext gives the text that NewContext was given, or "".
func FromContext(ctx context.Context) string {
	s, _ := ctx.Value(contextKey{}).(string)
	return s
}

// LogKey is the field of log lines that names a trace.
const LogKey = "traceId"

const mark = " " + LogKey + "="

// Named adds the trace to a name that a person reads; without a trace it is the
// name.
func Named(name, s string) string {
	if s == "" {
		return name
	}
	return name + mark + TraceID(s)
}

// Split takes the trace off that Named has added, "" if there is none.
func Split(name string) (rest, traceID string) {
	at := strings.LastIndex(name, mark)
	if at < 0 || len(name) < at+len(mark)+32 {
		return name, ""
	}
	id := name[at+len(mark) : at+len(mark)+32]
	if !digits(id, true) {
		return name, ""
	}
	return name[:at] + name[at+len(mark)+32:], id
}
