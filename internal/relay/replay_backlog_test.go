// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/queue"
)

// modelEntry is a record in the plain model of a backlog: a slice in the order of
// reception.
type modelEntry struct {
	id     synchronizer.ClusterID
	at     receipt
	name   string
	size   int64
	active bool
}

type model struct {
	limits ReplayLimits
	list   []modelEntry
	lost   []string
}

func (m *model) lose(reason synchronizer.DropReason, e *modelEntry) {
	m.lost = append(m.lost, string(reason)+" "+e.name)
}

func (m *model) expire(now time.Duration) {
	m.list = slices.DeleteFunc(m.list, func(e modelEntry) bool {
		gone := !e.active && now-e.at.at >= m.limits.TTL
		if gone {
			m.lose(synchronizer.DropReplayExpired, &e)
		}
		return gone
	})
}

// held sums up what fits.
func (m *model) held(fits func(*modelEntry) bool) (count int, bytes int64) {
	for i := range m.list {
		if fits(&m.list[i]) {
			count++
			bytes += m.list[i].size
		}
	}
	return count, bytes
}

func (m *model) evictWhile(over func() bool, of func(*modelEntry) bool) {
	for over() {
		i := slices.IndexFunc(m.list, func(e modelEntry) bool { return !e.active && of(&e) })
		m.lose(synchronizer.DropReplayCapacity, &m.list[i])
		m.list = slices.Delete(m.list, i, i+1)
	}
}

func (m *model) keep(e *modelEntry, now time.Duration) {
	m.expire(now)
	mine := func(o *modelEntry) bool { return o.id == e.id }
	active, bytes := m.held(func(o *modelEntry) bool { return o.active })
	ofMine, _ := m.held(func(o *modelEntry) bool { return o.active && mine(o) })
	switch {
	case now-e.at.at >= m.limits.TTL:
		m.lose(synchronizer.DropReplayExpired, e)
		return
	case e.size > m.limits.MaxBytes:
		m.lose(synchronizer.DropReplayTooLarge, e)
		return
	case active >= m.limits.MaxMessages || bytes+e.size > m.limits.MaxBytes || ofMine >= m.limits.MaxMessagesPerClient:
		m.lose(synchronizer.DropReplayCapacity, e)
		return
	}
	m.list = append(m.list, *e)
	slices.SortFunc(m.list, func(a, b modelEntry) int { return int(a.at.seq) - int(b.at.seq) })
	m.evictWhile(func() bool { n, _ := m.held(mine); return n > m.limits.MaxMessagesPerClient }, mine)
	all := func(*modelEntry) bool { return true }
	m.evictWhile(func() bool {
		n, bytes := m.held(all)
		return n > m.limits.MaxMessages || bytes > m.limits.MaxBytes
	}, all)
}

// take makes the oldest idle one of a client active.
func (m *model) take(id synchronizer.ClusterID, now time.Duration) string {
	m.expire(now)
	for i := range m.list {
		if m.list[i].id == id && !m.list[i].active {
			m.list[i].active = true
			return m.list[i].name
		}
	}
	return ""
}

// commandOf is a record like one of the backend.
func commandOf(id synchronizer.ClusterID, name string, body int) synchronizer.Record {
	m := synchronizer.Message{
		Event: synchronizer.EventPut, Depth: 1, MsgID: "m", Kind: configMaps, Namespace: "demo", Name: name,
		ClusterID: id, Body: []byte(strings.Repeat("x", body)),
	}
	e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	r, err := e.Encode(&m, queue.Extra{})
	if err != nil {
		panic(err)
	}
	r.Partition, r.Position = "7", 1<<40
	return r
}

// TestBacklogIsTheModel drives a backlog and the model alike, through all that can
// happen to a client: records come, are taken one by one, are written, or all that
// were taken are given back, those that were never kept too; time passes.
func TestBacklogIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := ReplayLimits{
			TTL:         time.Duration(rapid.IntRange(1, 30).Draw(t, "ttl")),
			MaxMessages: rapid.IntRange(1, 12).Draw(t, "messages"), MaxMessagesPerClient: rapid.IntRange(1, 8).Draw(t, "perClient"),
			MaxBytes: int64(rapid.IntRange(200, 3000).Draw(t, "bytes")),
		}
		b, m := newBacklog(limits), &model{limits: limits}
		ids := []synchronizer.ClusterID{{Account: "a", Cluster: "c"}, {Account: "b", Cluster: "c"}, {Account: "a", Cluster: "d"}}
		taken := map[synchronizer.ClusterID][]*kept{}
		type direct struct {
			at     receipt
			record synchronizer.Record
			name   string
		}
		passed := map[synchronizer.ClusterID][]direct{} // received and never kept
		now, seq := time.Duration(0), uint64(0)
		nameOf := func(k *kept) string {
			r := k.record()
			return r.Property(queue.PropertyName)
		}
		entry := func(id synchronizer.ClusterID, d direct) *modelEntry {
			return &modelEntry{id: id, at: d.at, name: d.name, size: packedSize(&d.record)}
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 3).Draw(t, "pass"))
			id := rapid.SampledFrom(ids).Draw(t, "client")
			switch rapid.SampledFrom([]string{"keep", "keep", "keep", "pass", "take", "take", "done", "giveBack", "sweep"}).Draw(t, "step") {
			case "keep", "pass":
				seq++
				d := direct{at: receipt{now, seq}, name: fmt.Sprint(seq)}
				d.record = commandOf(id, d.name, rapid.IntRange(0, 600).Draw(t, "body"))
				// What goes directly does so only when nothing waits.
				if n, _ := m.held(func(e *modelEntry) bool { return e.id == id && !e.active }); n == 0 && rapid.Bool().Draw(t, "directly") {
					passed[id] = append(passed[id], d)
					break
				}
				b.keep(id, d.at, &d.record, now)
				m.keep(entry(id, d), now)
			case "take":
				want := m.take(id, now)
				if k := b.take(id, now); k == nil {
					require.Empty(t, want)
				} else {
					require.Equal(t, want, nameOf(k))
					require.Less(t, now-k.at, limits.TTL)
					taken[id] = append(taken[id], k)
				}
			case "done":
				if len(taken[id]) > 0 {
					k := taken[id][0]
					taken[id] = taken[id][1:]
					m.list = slices.DeleteFunc(m.list, func(e modelEntry) bool { return e.name == nameOf(k) })
					b.remove(k)
				}
			case "giveBack":
				for _, k := range taken[id] {
					b.idle(k)
				}
				for i := range m.list {
					if m.list[i].id == id {
						m.list[i].active = false
					}
				}
				for _, d := range passed[id] {
					b.keep(id, d.at, &d.record, now)
					m.keep(entry(id, d), now)
				}
				taken[id], passed[id] = nil, nil
			case "sweep":
				b.expire(now)
				m.expire(now)
			}
			check(t, b, m)
		}
		count, _ := m.held(func(e *modelEntry) bool { return !e.active })
		require.Equal(t, count, b.clear())
		for _, list := range taken {
			for _, k := range list {
				b.remove(k)
			}
		}
		require.Zero(t, b.count)
		require.Zero(t, b.bytes)
		require.Zero(t, b.active)
		require.Zero(t, b.activeBytes)
		require.Empty(t, b.clients)
		require.Nil(t, b.first)
		require.Nil(t, b.last)
	})
}

// check compares what is held, in which order, and what was lost.
func check(t *rapid.T, b *backlog, m *model) {
	var got, want, lost []string
	for k := b.first; k != nil; k = k.newer {
		r := k.record()
		got = append(got, fmt.Sprint(k.client.id, r.Property(queue.PropertyName), k.active))
	}
	perClient := map[synchronizer.ClusterID]int{}
	for i := range m.list {
		want = append(want, fmt.Sprint(m.list[i].id, m.list[i].name, m.list[i].active))
		perClient[m.list[i].id]++
	}
	require.Equal(t, want, got)
	for id, client := range b.clients {
		require.Len(t, client.list, perClient[id])
	}
	count, bytes := m.held(func(*modelEntry) bool { return true })
	require.Equal(t, count, b.count)
	require.Equal(t, bytes, b.bytes)
	require.LessOrEqual(t, b.count, b.limits.MaxMessages)
	require.LessOrEqual(t, b.bytes, b.limits.MaxBytes)
	for _, l := range b.lost {
		lost = append(lost, string(l.reason)+" "+l.what[strings.LastIndex(l.what, "/")+1:])
	}
	require.Equal(t, m.lost, lost)
}

// TestPackedRecords: what is kept is what came, but for the key.
func TestPackedRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 300, 400)
		r := synchronizer.Record{
			Key: "a/c", Payload: rapid.SliceOfN(rapid.Byte(), 0, 1000).Draw(t, "payload"),
			Partition: text.Draw(t, "partition"), Position: rapid.Uint64().Draw(t, "position"),
			Properties: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) synchronizer.Property {
				return synchronizer.Property{Name: text.Draw(t, "name"), Value: text.Draw(t, "value")}
			}), 0, 20).Draw(t, "properties"),
		}
		k := kept{data: pack(&r, packedSize(&r))}
		require.Len(t, k.data, int(packedSize(&r)))
		got := k.record()
		r.Key = ""
		require.Equal(t, len(r.Payload), len(got.Payload))
		require.Equal(t, string(r.Payload), string(got.Payload))
		got.Payload, r.Payload = nil, nil
		if len(r.Properties) == 0 {
			got.Properties, r.Properties = nil, nil
		}
		require.Equal(t, r, got)
	})
}

// TestReplayDefaults: what is not positive means the default.
func TestReplayDefaults(t *testing.T) {
	want := ReplayLimits{TTL: 300 * time.Second, MaxMessages: 10_000, MaxMessagesPerClient: 100, MaxBytes: 64 << 20}
	require.Equal(t, want, newBacklog(ReplayLimits{}).limits)
	require.Equal(t, want, newBacklog(ReplayLimits{TTL: -1, MaxMessages: -1, MaxMessagesPerClient: -1, MaxBytes: -1}).limits)
	given := ReplayLimits{TTL: 1, MaxMessages: 2, MaxMessagesPerClient: 3, MaxBytes: 4}
	require.Equal(t, given, newBacklog(given).limits)
}
