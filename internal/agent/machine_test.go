// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

// player drives a machine with words, and writes down the effects:
//
//	up, down, +30s                  the link, time passes
//	list a:1 b:2 end / list! ...    objects (name:uid.data) of a list that ends or fails
//	A a:1, M a:2, D a, F a          events (F: modified, and outside the rules)
//	get a                           the backend asks
//	got a:1 / got a / got! a        a GET gives a state, nothing, or an error
//	unsent a, unanswered a, late a  what became of messages
//	gone, ended, broken, 403, 404   how the watch ends
//	bad                             it gives something that cannot be read
//	evict                           the pool loses what it keeps
type player struct {
	*machine
	now  time.Time
	kept map[key]offer
}

func newPlayer(kind traits) *player {
	now := time.Unix(1000, 0)
	kind.window = time.Second
	return &player{machine: newMachine(now, exactly, kind), now: now, kept: map[key]offer{}}
}

func (m *player) said(e *effect) string {
	switch e.do {
	case effectVerify:
		return "verify " + e.key.name
	case effectPut:
		return "put " + e.key.name
	case effectDelete:
		return "delete " + e.key.name
	case effectRead:
		return "read " + e.key.name
	case effectList:
		return "list"
	case effectWatch:
		return "watch " + e.cursor
	case effectStop:
		return "stop"
	case effectDrop:
		return "drop " + string(e.reason)
	case effectKeep:
		m.kept[e.key] = offer{digest: e.item.digest, version: e.item.version}
	case effectForget:
		delete(m.kept, e.key)
	case effectBody:
		var o *offer
		if kept, ok := m.kept[e.key]; ok {
			o = &kept
		}
		delete(m.kept, e.key)
		m.body(m.now, e.key, o)
	}
	return ""
}

// play returns what the machine said, in order.
func (m *player) play(words string) string {
	now := &m.now
	var said []string
	flush := func() {
		for first := true; first || m.hasWork(); first = false {
			m.work(*now, 1000)
			for i := 0; i < len(m.effects); i++ {
				if text := m.said(&m.effects[i]); text != "" {
					said = append(said, text)
				}
			}
			m.effects = nil
		}
	}
	fields := strings.Fields(words)
	i := 0
	parse := func(word string) item {
		name, state, _ := strings.Cut(word, ":")
		uid, data, _ := strings.Cut(state, ".")
		it := item{key: keyOf("", name), uid: parseUID(uid), version: parseVersion(state)}
		copy(it.digest[:], "d"+uid+data)
		if data, order, shuffled := strings.Cut(data, "~"); shuffled {
			it.sum = parseVersion("s" + data)
			copy(it.digest[:], "d"+uid+data+order)
		}
		it.hollow = m.traits.hollow && !strings.HasPrefix(fields[i-1], "got")
		if strings.Contains(state, "?") {
			it.problem, it.digest = unreadable, [16]byte{}
		}
		return it
	}
	for ; i < len(fields); i++ {
		next := func() string { i++; return fields[i] }
		switch word := fields[i]; word {
		case "up":
			m.linkUp(*now)
		case "down":
			m.linkDown(*now)
		case "list", "list!":
			for word := next(); word != "end"; word = next() {
				m.listed(*now, parse(word))
			}
			if word == "list" {
				m.listEnded(*now, "L", nil)
			} else {
				m.listEnded(*now, "", errors.New("broken"))
			}
		case "A":
			m.changed(*now, synchronizer.WatchAdded, "r", parse(next()))
		case "M":
			m.changed(*now, synchronizer.WatchModified, "r", parse(next()))
		case "D":
			m.changed(*now, synchronizer.WatchDeleted, "r", parse(next()))
		case "F":
			it := parse(next())
			it.problem = filtered
			m.changed(*now, synchronizer.WatchModified, "r", it)
		case "bookmark":
			m.changed(*now, synchronizer.WatchBookmark, "B", item{})
		case "get":
			m.requested(*now, request{key: keyOf("", next()), msgID: "m", depth: 2}, nil)
		case "got", "got!":
			arg := next()
			name, state, _ := strings.Cut(arg, ":")
			r := m.reads[keyOf("", name)]
			if r == nil {
				r = &read{key: keyOf("", name)}
			}
			switch {
			case word == "got!":
				m.readDone(*now, r, item{}, errors.New("broken"))
			case state == "":
				m.readDone(*now, r, item{}, synchronizer.ErrNotFound)
			default:
				m.readDone(*now, r, parse(arg), nil)
			}
		case "unsent":
			m.unsent(keyOf("", next()))
		case "unanswered":
			m.unanswered(keyOf("", next()))
		case "late":
			m.sentAgain(*now, keyOf("", next()))
		case "evict":
			clear(m.kept)
		case "bad":
			m.watchEnded(*now, synchronizer.ErrInvalid)
		case "gone":
			m.watchEnded(*now, synchronizer.ErrGone)
		case "ended":
			m.watchEnded(*now, nil)
		case "broken":
			m.watchEnded(*now, errors.New("broken"))
		case "403":
			m.watchEnded(*now, synchronizer.ErrForbidden)
		case "404":
			m.watchEnded(*now, synchronizer.ErrKindNotServed)
		default:
			d, err := time.ParseDuration(strings.TrimPrefix(word, "+"))
			if err != nil {
				panic(word)
			}
			*now = now.Add(d)
			m.tick(*now)
		}
		flush()
	}
	return strings.Join(said, ", ")
}

func exactly(d time.Duration) time.Duration { return d }

func TestMachine(t *testing.T) {
	many := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "o%d:u ", i)
		}
		return b.String()
	}
	const synced = "up list a:1.x b:2.x end"
	tests := []struct{ name, before, words, want string }{
		{"nothing without a link", "", "+1h", ""},
		{"first sync", "", synced, "list, verify a, verify b, watch L"},
		{"nothing new", synced, "M a:1.x A a:1.x", ""},
		{"modified", synced, "M a:1.y", "put a"},
		{"added", synced, "A c:3.x", "verify c"},
		{"modified, but unknown", synced, "M c:3.x", "verify c"},
		{"created again", synced, "D a A a:9.x", "delete a, verify a"},
		{"created again, deletion missed", synced, "M a:9.x", "verify a"},
		{"deleted twice", synced, "D a D a D c", "delete a"},
		{"left the rules", synced, "F a:1.y F c:3.y", "delete a"},
		{"unreadable is present", synced, "M a:1.? gone list a:1.? b:2.x end", "drop unreadable_object, list, drop unreadable_object, watch L"},
		{"readable again", synced, "M a:1.? M a:1.x", "drop unreadable_object, put a"},

		{"watch ends", synced + " +1m", "ended", "watch L"},
		{"watch resumes behind the last event", synced, "M a:1.y ended", "put a, watch r"},
		{"watch resumes behind a bookmark", synced, "bookmark ended", "watch B"},
		{"watch ends at once, again and again", synced, "ended ended +999ms +1ms", "watch L, watch L"},
		{"watch breaks", synced, "broken +499ms +1ms", "watch L"},
		{"watch is gone", synced + " +1m", "gone list a:1.x c:3.x end", "list, verify c, watch L, delete b"},
		{"watch is gone at once, again", synced, "gone list a:1.x b:2.x end gone +999ms +1ms", "list, watch L, list"},
		{"forbidden", synced, "403 +59s +1s", "watch L"},
		{"not served", synced, "404 +29s +1s", "list"},
		{"list fails", "up", "list! a:1.x end +499ms +1ms list! end +1s", "verify a, list, list"},
		{"a list that fails proves nothing", synced, "gone list! a:1.x end +1s list a:1.x b:2.x end", "list, list, watch L"},
		{"marks of a failed list do not count", synced, "gone list! a:1.x end +1s list b:2.x end", "list, list, watch L, delete a"},

		{"dirty while the link is down", synced + " +101s down", "M a:1.y M b:2.x +1h up got a:1.y", "read a, verify a"},
		{"what was sent shortly before", synced + " +99s", "down up got a:1.x got b:2.x", "read a, read b, verify a, verify b"},
		{"deleted shortly before", synced + " +200s D a +99s", "down up", "delete a"},
		{"deleted long before", synced + " +200s D a +102s", "down up", ""},
		{"deleted while the link is down", synced + " +200s down", "D a D b A b:9.x up got b:9.x", "delete a, read b, verify b"},
		{"deleted and created again", synced + " +200s D a", "down A a:9.x up got a:9.x", "read a, verify a"},
		{"a list while the link is down waits", synced + " +200s down", "gone up", "list"},
		{"dirty, and gone", synced + " +200s down M a:1.y", "up got a D a", "read a, delete a"},
		{"dirty, and changed meanwhile", synced + " +200s down M a:1.y", "up M a:1.z got a:1.y", "read a, put a"},
		{"dirty, and the read fails", synced + " +200s down M a:1.y", "up got! a +500ms got a:1.y", "read a, read a, verify a"},
		{"reads fail again and again", synced + " +200s down M a:1.y", "up got! a +500ms got! a +1s got! a +2s", "read a, read a, read a, stop, list"},
		{"link breaks while reading", synced + " +200s down M a:1.y up", "down got a:1.y up got a:1.y", "read a, verify a"},
		{"many dirty keys", "up list " + many(0, 300) + "end +200s down M o0:u", "up got o0:u", ""},

		{"sent just before, by a slow link", synced + " +200s late a D b +50s late b +99s", "down up got a:1.x", "delete b"},
		{"sent just before, by a slow link, still there", synced + " +200s late a +99s", "down up got a:1.x", "read a, verify a"},
		{"not sent", synced + " +200s M a:1.y D b unsent a unsent b +200s", "down up got a:1.y", "delete b, read a, verify a"},
		{"a request was lost", synced + " +200s unanswered a unanswered c", "down up got a:1.x", "read a, verify a"},
		{"seen while the link was down, too many", "up list! end down +1s", "up list " + many(0, 3) + "end", "list, verify o0, verify o1, verify o2, watch L"},

		{"asked", synced, "get a got a:1.y M a:1.y", "read a, put a"},
		{"asked, and changed meanwhile", synced, "get a M a:1.y got a:1.x got a:1.y", "read a, put a, read a, put a"},
		{"asked twice", synced, "get a get a got a:1.x", "read a, put a, put a"},
		{"asked, and gone", synced, "get a got a D a", "read a, drop object_gone, delete a"},
		{"asked for an unknown one", synced, "get c got c:3.x A c:3.x", "read c, put c"},
		{"asked, and the read fails", synced, "get a got! a +500ms got a:1.x", "read a, read a, verify a"},
		{"asked, and the link breaks", synced + " +200s", "get a down got a:1.x up got a:1.x", "read a, read a, verify a"},

		{"many vanish", "up list " + many(0, 60) + "end", "gone list " + many(0, 30) + "end +29s +1s list " + many(0, 59) + "end", "list, watch L, stop, list, watch L, delete o59"},
		{"many vanish, and a list comes early", "up list " + many(0, 60) + "end +1m", "gone list " + many(0, 30) + "end +15s gone list " + many(0, 30) + "end", "list, watch L, list, watch L"},
		{"few vanish", "up list " + many(0, 60) + "end", "gone list " + many(1, 60) + "end", "list, watch L, delete o0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newPlayer(traits{})
			m.play(test.before)
			got := m.play(test.words)
			if strings.Contains(test.want, "read a, read b") { // in any order
				got = strings.ReplaceAll(got, "read b, read a", "read a, read b")
			}
			require.Equal(t, test.want, got)
			requireCounts(t, m.machine)
		})
	}
}

func requireCounts(t require.TestingT, m *machine) {
	dirty, waits, leaves, requests, running := 0, 0, 0, 0, 0
	for k, e := range m.objects {
		if e.dirty {
			dirty++
		}
		switch e.stage {
		case waiting:
			waits++
			w, r := m.windows.of[k], m.reads[k]
			require.False(t, e.dirty)
			require.NotNil(t, w)
			require.True(t, w.place >= 0 || r != nil && r.change || slices.Contains(m.ready, w), "nobody will look at %s", k)
		case leaving:
			leaves++
		}
	}
	for _, r := range m.reads {
		requests += len(r.requests)
		if r.running {
			running++
		}
	}
	require.Equal(t, dirty, m.dirty)
	require.Equal(t, waits, m.waiting)
	require.Equal(t, leaves, m.leaving)
	require.Equal(t, requests, m.requests)
	require.Equal(t, running, m.inflight)
	for i, w := range m.windows.order {
		require.Equal(t, i, w.place)
		require.Same(t, w, m.windows.of[w.key])
	}
	for k, w := range m.windows.of {
		require.True(t, w.place >= 0 || m.reads[k] != nil || slices.Contains(m.ready, w), "a window without an end")
	}
}

// TestMachineCounts: whatever order events come in, the counts stay true,
// nothing is sent without a link, and only what was asked for is read.
func TestMachineCounts(t *testing.T) {
	words := []string{
		"up", "down", "A a:1.x", "M a:1.y", "M a:1.z", "M a:1.~1", "M a:1.~2", "A a:2.x", "M a:2.x", "evict", "bad", "D a", "A b:1.x", "M b:1.?", "D b", "F a:1.z", "bookmark",
		"get a", "get b", "get c", "got a:1.x", "got a", "got! a", "got b:1.z", "got! b", "+6s", "+1s", "+40s", "+200s",
		"gone", "ended", "broken", "403", "404", "list a:1.x end", "list b:1.x a:2.z end", "list end", "list! a:1.x end",
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newPlayer(traits{
			hollow: rapid.Bool().Draw(t, "hollow"), selecting: rapid.Bool().Draw(t, "selecting"), relist: 5 * time.Minute,
		})
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			word := rapid.SampledFrom(words).Draw(t, "word")
			if strings.HasPrefix(word, "list") != (m.state == StateListing) && strings.Contains(" list list! ", " "+strings.Fields(word)[0]+" ") {
				continue
			}
			watching := m.state == StateWatching
			if strings.Contains(" A M D F bookmark gone ended broken bad 403 404 ", " "+strings.Fields(word)[0]+" ") && !watching {
				continue
			}
			if strings.HasPrefix(word, "got") {
				if r := m.reads[keyOf("", string(strings.Fields(word)[1][0]))]; r == nil || !r.running {
					continue
				}
			}
			if (word == "up") == m.up && (word == "up" || word == "down") || word == "down" && !m.up {
				continue
			}
			said := m.play(word)
			if !m.up {
				for _, never := range []string{"verify ", "put ", "delete ", "read ", "list"} {
					require.NotContains(t, said, never)
				}
			}
			requireCounts(t, m.machine)
			require.LessOrEqual(t, m.inflight, maxReads)
		}
	})
}
