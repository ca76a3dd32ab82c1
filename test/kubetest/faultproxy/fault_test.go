// SPDX-License-Identifier: Apache-2.0

package faultproxy_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/test/kubetest/faultproxy"
)

const (
	garbage = "\x00\xff this is no event }{\n"
	half    = `{"type":"MODIFIED","object":{"kind":"Half","metadata":{"name":"ha`
)

// The history that watches see.
const (
	added, modified, deleted = "ADDED a", "MODIFIED a", "DELETED a"
)

func TestWatchFaults(t *testing.T) {
	const (
		orderly = iota // the answer ends
		open           // it does not, and the test goes away
		broken         // the connection or stream fails
	)
	for name, test := range map[string]struct {
		fault faultproxy.Fault
		lines []string
		ends  int
	}{
		"none":            {nil, []string{added, modified, deleted}, open},
		"gone":            {faultproxy.GoneInStream{After: 1}, []string{added, "ERROR 410"}, orderly},
		"gone at once":    {faultproxy.GoneInStream{}, []string{"ERROR 410"}, orderly},
		"error":           {faultproxy.ErrorInStream{After: 1, Answer: faultproxy.InternalError}, []string{added, "ERROR 500"}, orderly},
		"garbage":         {faultproxy.GarbageLine{After: 1}, []string{added, garbage, modified, deleted}, open},
		"half line":       {faultproxy.HalfLine{After: 2}, []string{added, modified, half}, orderly},
		"unknown":         {faultproxy.UnknownEvent{After: 1}, []string{added, "FOO foo", modified, deleted}, open},
		"end at once":     {faultproxy.End{}, nil, orderly},
		"silent":          {faultproxy.Silent{}, nil, open},
		"frozen":          {faultproxy.Silent{After: 2}, []string{added, modified}, open},
		"drop deleted":    {faultproxy.Drop{Type: "DELETED"}, []string{added, modified}, open},
		"drop one":        {faultproxy.Drop{Name: "a", Namespace: "faults", Events: 1}, []string{modified, deleted}, open},
		"slow":            {faultproxy.Slow{Bytes: 64, Pause: time.Microsecond}, []string{added, modified, deleted}, open},
		"cut":             {faultproxy.Cut{After: 2}, []string{added, modified}, broken},
		"half-close":      {faultproxy.HalfClose{After: 1}, []string{added}, broken},
		"dead connection": {faultproxy.DeadConnection{After: 2}, []string{added, modified}, open},
	} {
		t.Run(name, func(t *testing.T) {
			eachBackend(t, func(t *testing.T, b backend, http1 bool) {
				p := faultproxy.New(t, b)
				struck := func() bool { return true }
				if test.fault != nil {
					armed := p.Arm(faultproxy.Watch("configmaps").In("faults"), test.fault)
					struck = func() bool { return armed.Count() > 0 }
				}
				got := newClient(t, p, http1).get(t, b.watch(), func(so answer) bool {
					return test.ends == open && so.status != 0 && len(so.lines) >= len(test.lines) && struck()
				})
				require.Equal(t, http.StatusOK, got.status)
				require.Equal(t, test.lines, got.lines)
				require.True(t, struck())
				switch test.ends {
				case orderly:
					require.NoError(t, got.err)
				case open:
					require.ErrorIs(t, got.err, context.Canceled)
				default:
					require.Error(t, got.err)
					require.NotErrorIs(t, got.err, context.Canceled)
				}
			})
		})
	}
}

func TestBookmarksOnly(t *testing.T) {
	b := smallBackend(t)
	b.version = "bookmark"
	p := faultproxy.New(t, b)
	p.Arm(faultproxy.Watch(""), faultproxy.BookmarksOnly{})
	got := newClient(t, p, false).get(t, b.watch(), func(so answer) bool { return len(so.lines) > 0 })
	require.Equal(t, []string{"BOOKMARK "}, got.lines)
	require.Equal(t, 3, p.Count(faultproxy.BookmarksOnly{}))
	require.Equal(t, "DELETED faults/a", p.Log()[2].Detail)
}

func TestBookmarksOnlyOfRealStreamingList(t *testing.T) {
	b := realBackend(t)
	p := faultproxy.New(t, b)
	p.Arm(faultproxy.Watch("").StreamingList(), faultproxy.BookmarksOnly{})
	got := newClient(t, p, false).get(t, collection+"?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		func(so answer) bool { return len(so.lines) > 0 })
	require.Equal(t, []string{"BOOKMARK "}, got.lines)
	require.Equal(t, 3, p.Count(faultproxy.BookmarksOnly{}))
}

func TestAnswers(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend, http1 bool) {
		for name, test := range map[string]struct {
			match      faultproxy.Match
			answer     faultproxy.Answer
			path       string
			retryAfter string
		}{
			"410 on watch":     {faultproxy.Watch("configmaps"), faultproxy.Gone, b.watch(), ""},
			"expired continue": {faultproxy.List("configmaps").Continued(), faultproxy.ExpiredContinue, collection + "?continue=token", ""},
			"429":              {faultproxy.List(""), faultproxy.TooManyRequests(7 * time.Second), collection, "7"},
			"500":              {faultproxy.Get("configmaps").Named("x"), faultproxy.InternalError, collection + "/x", ""},
			"503":              {faultproxy.Match{}, faultproxy.Unavailable, "/apis", ""},
			"403":              {faultproxy.List("configmaps."), faultproxy.Forbidden, collection, ""},
			"422":              {faultproxy.Watch("").StreamingList(), faultproxy.NoStreamingList, b.watch() + "&sendInitialEvents=true", ""},
		} {
			t.Run(name, func(t *testing.T) {
				p := faultproxy.New(t, b)
				armed := p.Arm(test.match, test.answer)
				got := newClient(t, p, http1).get(t, test.path, nil)
				require.NoError(t, got.err)
				require.Equal(t, test.answer.Code, got.status)
				require.Equal(t, test.retryAfter, got.header.Get("Retry-After"))
				var status struct {
					Kind, Reason string
					Code         int
				}
				require.NoError(t, json.Unmarshal([]byte(got.lines[0]), &status))
				require.Equal(t, "Status", status.Kind)
				require.Equal(t, test.answer.Code, status.Code)
				require.Equal(t, string(test.answer.Reason), status.Reason)
				require.Equal(t, 1, armed.Count())
				require.Equal(t, 1, p.Count(test.answer))
			})
		}
	})
}

func TestListFaults(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend, http1 bool) {
		list := collection + "?resourceVersionMatch=Exact&resourceVersion=" + b.version // the same bytes each time
		whole := newClient(t, faultproxy.New(t, b), http1).get(t, list, nil)
		require.NoError(t, whole.err)
		text := strings.Join(whole.lines, "")

		for name, test := range map[string]struct {
			fault  faultproxy.Fault
			bytes  int
			broken bool
		}{
			"page without its end": {faultproxy.End{After: 40}, 40, false},
			"cut":                  {faultproxy.Cut{After: 40}, 40, true},
			"half-close":           {faultproxy.HalfClose{After: 40}, 40, true},
			"slow":                 {faultproxy.Slow{Bytes: 16, Pause: time.Microsecond}, len(text), false},
		} {
			t.Run(name, func(t *testing.T) {
				p := faultproxy.New(t, b)
				p.Arm(faultproxy.List("configmaps"), test.fault)
				got := newClient(t, p, http1).get(t, list, nil)
				require.Equal(t, text[:test.bytes], strings.Join(got.lines, ""))
				require.Equal(t, test.broken, got.err != nil, "%v", got.err)
				require.Equal(t, 1, p.Count(test.fault))
				require.Equal(t, test.bytes, p.Requests(faultproxy.List(""))[0].Bytes)
			})
		}
		t.Run("cut instead of an answer", func(t *testing.T) {
			p := faultproxy.New(t, b)
			// A client may try again on its own, on a new connection.
			p.Arm(faultproxy.List(""), faultproxy.Cut{After: -1})
			got := newClient(t, p, http1).get(t, list, nil)
			require.Error(t, got.err)
			require.Zero(t, got.status)
		})
		for name, fault := range map[string]faultproxy.Fault{"black hole": faultproxy.BlackHole{}, "dead": faultproxy.DeadConnection{After: -1}} {
			t.Run(name, func(t *testing.T) {
				p := faultproxy.New(t, b)
				armed := p.Arm(faultproxy.List(""), fault)
				got := newClient(t, p, http1).get(t, list, func(answer) bool { return armed.Count() == 1 })
				require.ErrorIs(t, got.err, context.Canceled)
				require.Zero(t, got.status)
			})
		}
	})
}
