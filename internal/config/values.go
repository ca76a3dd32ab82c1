// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// redacted stands wherever a secret would.
const redacted = "[redacted]"

// Secret is a text that is never printed, logged or marshalled; only Reveal gives it out.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret; an empty one stays empty, so that "unset" can be seen.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON hides the secret from effective configurations that are printed.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// Presence records only that a key has a value in the file, of whatever type; it is the type of
// keys that are ignored or that no version acts on yet.
type Presence bool

// MarshalJSON shows that there was a value without showing it.
func (p Presence) MarshalJSON() ([]byte, error) {
	if !p {
		return []byte("null"), nil
	}
	return json.Marshal("(set)")
}

// Duration is a length of time, never negative; files write it as "1s" or as seconds.
type Duration time.Duration

// Std converts to the type of package time.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes the duration in Go's syntax.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes the duration in Go's syntax.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

var (
	errNegative = errors.New("must not be negative")
	errTooLarge = errors.New("is too large")
	errSyntax   = errors.New(`is not a duration: write it like "1s", "5m" or as a number of seconds`)
)

// parseDuration reads Go's syntax or a plain number of seconds. Its errors do not repeat the text.
func parseDuration(text string) (Duration, error) {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseFloat(text, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		switch {
		case math.IsNaN(seconds):
			return 0, errSyntax
		case seconds < 0:
			return 0, errNegative
		case seconds*float64(time.Second) >= math.MaxInt64:
			return 0, errTooLarge
		}
		return Duration(math.Round(seconds * float64(time.Second))), nil
	}
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && d < 0:
		return 0, errNegative
	case err == nil:
		return Duration(d), nil
	case durationOverflows(text):
		return 0, errTooLarge
	default:
		return 0, errSyntax
	}
}

// durationOverflows tells a number that is too large from one that is no duration: package time
// reports both with the same error.
func durationOverflows(text string) bool {
	digits := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if digits <= 0 {
		return false
	}
	_, err := time.ParseDuration("1" + text[digits:])
	return err == nil
}

// Seconds is a number of seconds as the field's keys have it; what a negative or an overflowing
// one means depends on the key.
type Seconds int64

// Duration converts; ok is false when the value is negative or does not fit.
func (s Seconds) Duration() (d time.Duration, ok bool) {
	if s < 0 || int64(s) > math.MaxInt64/int64(time.Second) {
		return 0, false
	}
	return time.Duration(s) * time.Second, true
}

// Role is the process that a configuration is for; it decides which sections are checked.
type Role int

// The roles. RoleUp is server, queue, ingester, store and API in one process.
const (
	RoleClient Role = iota + 1
	RoleServer
	RoleIngester
	RoleUp
)

// String returns the name by which ParseRole knows the role.
func (r Role) String() string {
	switch r {
	case RoleClient:
		return "client"
	case RoleServer:
		return "server"
	case RoleIngester:
		return "ingester"
	case RoleUp:
		return "up"
	default:
		return "role " + strconv.Itoa(int(r))
	}
}

// ParseRole reads the name of a role.
func ParseRole(name string) (Role, error) {
	for _, r := range []Role{RoleClient, RoleServer, RoleIngester, RoleUp} {
		if strings.EqualFold(name, r.String()) {
			return r, nil
		}
	}
	return 0, fmt.Errorf("unknown role %q: use client, server, ingester or up", name)
}

// sections are the top-level keys that a role reads.
func (r Role) sections() []string {
	if r == RoleClient {
		return []string{"inCluster", "httpEndpoint", "resources"}
	}
	return []string{"backend", "ingester", "store", "api", "resources"}
}
