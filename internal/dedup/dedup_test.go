// SPDX-License-Identifier: Apache-2.0

package dedup

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// clock is set by hand.
type clock struct{ now time.Time }

func (c *clock) at(seconds float64) {
	c.now = time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func TestB065DuplicatesNeitherExtendNorShorten(t *testing.T) {
	c := &clock{}
	m := New(Options{TTL: 2 * time.Second, MaxMessages: 3, Now: func() time.Time { return c.now }})
	// receive does what a client does with a message, and tells whether it was applied.
	receive := func(name string) bool {
		f := Of([]byte(name))
		if m.Seen(f) {
			return false
		}
		m.Applied(f)
		return true
	}
	c.at(0)
	require.True(t, receive("m1"))
	c.at(1.5)
	require.False(t, receive("m1"))
	c.at(2.2)
	require.True(t, receive("m1"), "applied again, because the duplicate did not extend it")

	for i, name := range []string{"a", "b", "c"} {
		c.at(2.3 + float64(i)/10)
		require.True(t, receive(name))
	}
	c.at(2.6)
	require.False(t, receive("a"))
	require.True(t, receive("d"))
	require.False(t, receive("b"))
	require.True(t, receive("a"), "the one that was applied first went, although it was looked up last")
}

func TestLimitsOfTime(t *testing.T) {
	c := &clock{}
	m := New(Options{TTL: 2 * time.Second, Now: func() time.Time { return c.now }})
	f := Of([]byte("m"))
	require.False(t, m.Seen(f))
	c.at(0)
	m.Applied(f)
	c.at(1)
	m.Applied(f)
	c.at(1.999)
	require.True(t, m.Seen(f))
	c.at(2)
	require.False(t, m.Seen(f), "counted from the first application")
	require.Empty(t, m.at)
}

func TestContentTellsMessagesApart(t *testing.T) {
	m := New(Options{})
	m.Applied(Of([]byte(`{"MsgId":"1","Object":"a"}`)))
	require.True(t, m.Seen(Of([]byte(`{"MsgId":"1","Object":"a"}`))))
	require.False(t, m.Seen(Of([]byte(`{"MsgId":"1","Object":"b"}`))))
}

func TestDefaults(t *testing.T) {
	m := New(Options{TTL: -1, MaxMessages: -1})
	require.Equal(t, 600*time.Second, m.options.TTL)
	require.Equal(t, 10_000, m.options.MaxMessages)
	for i := range 10_001 {
		m.Applied(Of(fmt.Append(nil, i)))
	}
	require.Len(t, m.at, 10_000)
	require.False(t, m.Seen(Of([]byte("0"))))
	require.True(t, m.Seen(Of([]byte("1"))))
	require.True(t, m.Seen(Of([]byte("10000"))))
}

func TestTurnedOff(t *testing.T) {
	var m *Memory
	m.Applied(Fingerprint{})
	require.False(t, m.Seen(Fingerprint{}))
}

// TestAgainstModel compares with a list that is searched from the start.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			name string
			at   float64
		}
		c, now := &clock{}, 0.0
		most := rapid.IntRange(1, 5).Draw(t, "most")
		m := New(Options{TTL: 10 * time.Second, MaxMessages: most, Now: func() time.Time { return c.now }})
		var model []entry
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += float64(rapid.IntRange(0, 4).Draw(t, "pass"))
			c.at(now)
			for len(model) > 0 && now-model[0].at >= 10 {
				model = model[1:]
			}
			name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(t, "name")
			known := false
			for _, e := range model {
				known = known || e.name == name
			}
			if rapid.Bool().Draw(t, "look") {
				require.Equal(t, known, m.Seen(Of([]byte(name))))
				continue
			}
			m.Applied(Of([]byte(name)))
			if !known {
				if len(model) == most {
					model = model[1:]
				}
				model = append(model, entry{name, now})
			}
			require.Len(t, m.at, len(model))
		}
	})
}
