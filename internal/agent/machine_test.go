// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

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

// TestMachineMerges: changes within a window of 1 s, and kinds with traits.
func TestMachineMerges(t *testing.T) {
	const synced = "up list a:1.x b:2.x end"
	hollow, selecting, events := traits{hollow: true, relist: time.Hour}, traits{selecting: true}, traits{events: true}
	none := traits{}
	tests := []struct {
		name          string
		kind          traits
		before, words string
		want          string
	}{
		{"the last one wins", none, synced + " M a:1.y", "M a:1.z +500ms M a:1.w +499ms +1ms", "put a"},
		{"and is what was said", none, synced + " M a:1.y", "M a:1.z M a:1.y +10s", ""},
		{"windows of an object that goes on grow", none, synced + " M a:1.1", "M a:1.2 +1s M a:1.3 +1s +1s M a:1.4 +3s +1s", "put a, put a, put a"},
		{"and shrink", none, synced + " M a:1.1 M a:1.2 +1s +2s", "M a:1.3 M a:1.4 +1s", "put a, put a"},
		{"other objects do not wait", none, synced + " M a:1.y M a:1.z", "M b:2.y", "put b"},
		{"a deletion does not wait", none, synced + " M a:1.y M a:1.z", "D a +10s", "delete a"},
		{"deleted and created again", none, synced + " M a:1.y", "D a A a:9.x +1s", "delete a, verify a"},
		{"and deleted", none, synced + " M a:1.y D a", "A a:9.x D a A a:8.x D a +1s", ""},
		{"and modified", none, synced + " M a:1.y D a", "A a:9.x M a:9.y +1s", "verify a"},
		{"created again, deletion missed", none, synced + " M a:1.y", "M a:9.x M a:9.y +1s", "verify a"},
		{"the deletion counts still", none, synced + " +200s M a:1.y D a A a:9.x D a", "down up", "delete a"},
		{"the link breaks in a window", none, synced + " M a:1.y M a:1.z", "down +10s up got a:1.z", "read a, read b, verify a"},
		{"a list comes in a window", none, synced + " M a:1.y M a:1.z", "gone list a:1.z b:2.x end +10s", "list, verify a, watch L"},
		{"it becomes unreadable in a window", none, synced + " M a:1.y M a:1.z", "M a:1.? +10s", "drop unreadable_object"},

		{"the pool has no room", none, synced + " M a:1.y M a:1.z evict", "+1s got a:1.z +10s", "read a, put a"},
		{"no room, and it changes meanwhile", none, synced + " M a:1.y M a:1.z evict", "+1s M a:1.w got a:1.z +1s", "read a, put a"},
		{"no room, and a delete comes meanwhile", none, synced + " M a:1.y M a:1.z evict", "+1s D a got a:1.z +10s", "read a, delete a"},
		{"no room, and it is gone", none, synced + " M a:1.y M a:1.z evict", "+1s got a D a +10s", "read a, delete a"},
		{"no room, and the read fails", none, synced + " M a:1.y M a:1.z evict", "+1s got! a +500ms got a:1.z", "read a, read a, verify a"},
		{"asked in a window", none, synced + " M a:1.y M a:1.z", "get a got a:1.z +10s", "read a, put a"},
		{"the GET is ahead of the watch", none, synced + " M a:1.y", "get a got a:1.w M a:1.z +1s got a:1.w M a:1.w +10s", "read a, put a, read a"},

		{"order alone waits long", none, synced + " M a:1.x~1 +2s M a:1.x~2", "+10s M a:1.x~3 +9s +1s M a:1.x~4 +10s +30s", "put a"},
		{"but not what comes then", none, synced + " M a:1.x~1 +2s M a:1.x~2 +10s M a:1.x~3", "M a:1.y~3 +40s", "put a"},

		{"hollow: listed", hollow, "", "up list a:1.x end got a:1.x", "list, watch L, read a, verify a"},
		{"hollow: added", hollow, "up list end", "A a:1.x got a:1.x", "read a, verify a"},
		{"hollow: modified", hollow, "up list a:1.x end got a:1.x", "M a:1.y got a:1.y", "read a, put a"},
		{"hollow: nothing new", hollow, "up list a:1.x end got a:1.x", "M a:1.x gone list a:1.x end +1s", "list, watch L"},
		{"hollow: merged", hollow, "up list a:1.x end got a:1.x M a:1.y got a:1.y", "M a:1.z M a:1.w +1s got a:1.w +10s", "read a, put a"},
		{"hollow: changes while it is read", hollow, "up list a:1.x end got a:1.x", "M a:1.y M a:1.z got a:1.y +2s got a:1.z", "read a, put a, read a, put a"},
		{"hollow: changes, and the read has seen it", hollow, "up list a:1.x end got a:1.x", "M a:1.y got a:1.z M a:1.z +10s", "read a, put a"},
		{"hollow: deleted while it is read", hollow, "up list a:1.x end got a:1.x", "M a:1.y D a got a:1.y", "read a, delete a"},
		{"hollow: created again while it is read", hollow, "up list a:1.x end got a:1.x", "M a:1.y D a A a:2.x got a:1.y got a:2.x", "read a, delete a, read a, verify a"},
		{"hollow: created and deleted unseen", hollow, "up list end", "A a:1.x D a got a", "read a"},
		{"hollow: the read fails", hollow, "up list a:1.x end got a:1.x", "M a:1.y got! a +500ms got! a +1s got a:1.y", "read a, read a, read a, verify a"},
		{"hollow: too large", hollow, "up list a:1.x end", "got a:1.x? gone list a:1.x end", "drop unreadable_object, list, watch L"},
		{"hollow: one that fails keeps no other", hollow, "up list a:1.x end got! a", "A b:1.x got b:1.x M b:1.y +1s got b:1.y", "read b, verify b, read a, read b, put b"},
		{"hollow: listed again", hollow, "up list a:1.x end got a:1.x", "+1h list a:1.x end", "stop, list, watch L"},

		{"selecting: deleted", selecting, synced, "D a got a", "read a, delete a"},
		{"selecting: out of scope", selecting, synced, "D a got a:1.y D a", "read a, drop out_of_scope"},
		{"selecting: another one", selecting, synced, "D a got a:9.y", "read a, delete a"},
		{"selecting: it comes back", selecting, synced, "D a A a:1.y got a", "read a, verify a"},
		{"selecting: not listed", selecting, synced, "gone list b:2.x end got a:1.y", "list, watch L, read a, drop out_of_scope"},
		{"selecting: the read fails", selecting, synced, "D a got! a +500ms got a", "read a, read a, delete a"},
		{"selecting: while the link is down", selecting, synced + " +200s down", "D a up got a", "read a, delete a"},
		{"selecting: asked for what is outside", selecting, synced, "get c", "drop object_gone"},
		{"selecting: it comes back in a window", selecting, synced + " M a:1.y M a:1.z", "D a A a:1.w M a:1.z +10s got a:1.z", "read a, verify a, put a"},
		{"selecting: in a window", selecting, synced + " M a:1.y M a:1.z", "D a got a +10s", "read a, delete a"},

		{"events: every one", events, synced, "M a:1.y M a:1.z M a:1.z A c:1.x", "put a, put a, put c"},
		{"events: deletions are not told", events, synced, "D a gone list end +1m", "list, watch L"},
		{"events: nor those of the time without a link", events, synced + " D a down", "D b up", ""},

		{"unreadable once", none, synced, "bad +500ms", "watch L"},
		{"unreadable twice at the same place", none, synced, "bad +500ms bad +1s", "watch L, list"},
		{"unreadable twice, elsewhere", none, synced, "bad +500ms M a:1.y bad +500ms", "watch L, put a, watch r"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newPlayer(test.kind)
			m.play(test.before)
			got := m.play(test.words)
			got = strings.ReplaceAll(got, "read b, read a", "read a, read b")
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
		"exclude p", "include p", "A p/a:1.x", "M p/a:1.y", "M p/a:1.z", "D p/a", "get p/a", "got p/a:1.x", "got p/a", "got! p/a", "list p/a:1.x a:1.^ end",
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
				name, _, _ := strings.Cut(strings.Fields(word)[1], ":")
				if r := m.reads[named(name)]; r == nil || !r.running {
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
			if m.out["p"] {
				for _, never := range []string{"verify p/", "put p/", "delete p/"} {
					require.NotContains(t, said, never)
				}
			}
			requireCounts(t, m.machine)
			require.LessOrEqual(t, m.inflight, maxReads)
		}
	})
}
