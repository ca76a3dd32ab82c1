// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPoolEvictsTheOldest(t *testing.T) {
	p, owner := newPool(3*(offerOverhead+100)), &stream{}
	for _, name := range []string{"a", "b", "c", "d"} {
		p.add(owner, keyOf("", name), offer{body: make([]byte, 100)})
	}
	require.Nil(t, p.take(owner, keyOf("", "a")))
	require.NotNil(t, p.take(owner, keyOf("", "b")))
	require.Nil(t, p.take(owner, keyOf("", "b")), "taken")
	require.Nil(t, p.take(&stream{}, keyOf("", "c")), "of another kind")
	p.add(owner, keyOf("", "c"), offer{body: make([]byte, 10_000)})
	require.Nil(t, p.take(owner, keyOf("", "c")), "above the limit")
	p.leave(owner)
	require.Zero(t, p.size())
}

func TestPoolHasRoom(t *testing.T) {
	p, owner, now := newPool(2*(offerOverhead+100)), &stream{}, time.Unix(1000, 0)
	fill := func() {
		p.add(owner, keyOf("", "a"), offer{body: make([]byte, 100)})
		p.add(owner, keyOf("", "b"), offer{body: make([]byte, 100)})
	}
	fill()
	wait, freed := p.room(100, now)
	require.Zero(t, wait, "nothing was asked for yet")
	require.Nil(t, freed)

	p.answer(now)
	wait, freed = p.room(100, now.Add(100*time.Millisecond))
	require.Equal(t, 150*time.Millisecond, wait)
	require.NotNil(t, freed)
	p.take(owner, keyOf("", "a"))
	<-freed
	wait, _ = p.room(100, now)
	require.Zero(t, wait)

	fill()
	wait, _ = p.room(100, now.Add(answerPause))
	require.Zero(t, wait, "the backend asks no more")
	wait, _ = p.room(10_000, now)
	require.Zero(t, wait, "it would never fit")
}

func TestPoolKeepsItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPool(4000)
		owners := []*stream{{}, {}}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			owner := owners[rapid.IntRange(0, 1).Draw(t, "owner")]
			k := keyOf("", rapid.StringMatching("[a-e]").Draw(t, "name"))
			switch rapid.IntRange(0, 5).Draw(t, "do") {
			case 0:
				p.take(owner, k)
			case 1:
				p.leave(owner)
			default:
				p.add(owner, k, offer{body: make([]byte, rapid.IntRange(0, 5000).Draw(t, "size"))})
			}
			sum := 0
			for e := p.order.Front(); e != nil; e = e.Next() {
				sum += e.Value.(*slot).offer.size()
			}
			require.Equal(t, sum, p.used)
			require.LessOrEqual(t, p.used, p.limit)
			require.Equal(t, p.order.Len(), len(p.slots))
		}
	})
}

func TestInboxWaitsUntilTheSessionIsDown(t *testing.T) {
	b, s := newInbox(), newSession(nil, time.Now())
	for range inboxLimit {
		b.put(request{session: s})
	}
	done := make(chan struct{})
	go func() {
		b.put(request{session: s}) // full
		b.put(request{session: s})
		close(done)
	}()
	_, ok := b.take()
	require.True(t, ok)
	s.end(time.Now(), nil)
	<-done
	require.LessOrEqual(t, len(b.waiting), inboxLimit)
}

func TestIdentities(t *testing.T) {
	require.Equal(t, [16]byte{0xeb, 0xf0, 0xd8, 0xe4, 0xe0, 0xaa, 0x45, 0xaf, 0xa7, 0x15, 0x7c, 0xd2, 0x65, 0xf8, 0x0e, 0x78},
		parseUID("ebf0d8e4-e0aa-45af-a715-7cd265f80e78"))
	require.NotEqual(t, parseUID("EBF0D8E4"), parseUID("ebf0d8e4"))
	require.NotEqual(t, parseUID(""), parseUID("x"))
	require.NotEqual(t, [16]byte{}, parseUID(""))

	require.Equal(t, uint64(203), parseVersion("203"))
	for _, text := range []string{"", "0203", "-1", "9223372036854775808", "abc", "00"} {
		require.NotZero(t, parseVersion(text)>>63, text)
	}
	require.Zero(t, parseVersion("0"))
}

// Cleared, the pool has room again and holds nothing; whoever waits goes on.
func TestPoolClear(t *testing.T) {
	p := newPool(1 << 20)
	owner := &stream{}
	for _, name := range []string{"a", "b"} {
		p.add(owner, keyOf("default", name), offer{body: []byte("body")})
	}
	p.clear()
	require.Zero(t, p.size())
	require.Nil(t, p.take(owner, keyOf("default", "a")))
}
