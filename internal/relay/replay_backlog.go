// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"synchronizer"
	"synchronizer/internal/queue"
)

// ReplayLimits bound what a server keeps for clients that are not connected. What
// is not positive means the default.
type ReplayLimits struct {
	TTL                  time.Duration // since the record was read from the queue; default 300 s
	MaxMessages          int           // of the server; default 10,000
	MaxMessagesPerClient int           // default 100
	MaxBytes             int64         // payloads, properties and places on the broker; default 64 MiB
}

func (l ReplayLimits) withDefaults() ReplayLimits {
	if l.TTL <= 0 {
		l.TTL = 300 * time.Second
	}
	if l.MaxMessages <= 0 {
		l.MaxMessages = 10_000
	}
	if l.MaxMessagesPerClient <= 0 {
		l.MaxMessagesPerClient = 100
	}
	if l.MaxBytes <= 0 {
		l.MaxBytes = 64 << 20
	}
	return l
}

// backlog holds records per client in the order in which they were received,
// within limits. It has no lock and no clock.
//
// A record that is being replayed is active: it stays within the limits, and is
// neither selected again nor evicted until it is released or idle again.
type backlog struct {
	limits  ReplayLimits
	clients map[synchronizer.ClusterID]*waiting
	// first and last are the ends of the list of all, in the order of reception.
	first, last *kept
	count       int
	bytes       int64
	active      int
	activeBytes int64
	// lost is what went, for whoever has the lock to count when it has none.
	lost []loss
}

// waiting is what is kept for one client, oldest first. Those that are active come
// before all that are idle.
type waiting struct {
	id     synchronizer.ClusterID
	list   []*kept
	active int
}

// receipt says when a record was received: seq orders those of all clients.
type receipt struct {
	at  time.Duration
	seq uint64
}

// kept is one record, packed into one piece of memory: a record as it came from a
// broker would hold on to the memory of all that came with it.
type kept struct {
	receipt
	data         []byte
	client       *waiting
	older, newer *kept
	active       bool
}

// loss is one record that is not kept any more and was not replayed.
type loss struct {
	reason synchronizer.DropReason
	what   string
}

func newBacklog(limits ReplayLimits) *backlog {
	return &backlog{limits: limits.withDefaults(), clients: map[synchronizer.ClusterID]*waiting{}}
}

// keep puts a record at its place. What has to go for it is the oldest that is not
// being replayed, which may be the record itself if it is given back late. It reports
// whether there was a place.
func (b *backlog) keep(id synchronizer.ClusterID, at receipt, r *synchronizer.Record, now time.Duration) bool {
	b.expire(now)
	size := packedSize(r)
	client := b.clients[id]
	switch {
	case now-at.at >= b.limits.TTL:
		b.lose(synchronizer.DropReplayExpired, id, r)
		return false
	case size > b.limits.MaxBytes:
		b.lose(synchronizer.DropReplayTooLarge, id, r)
		return false
	case b.active >= b.limits.MaxMessages, b.activeBytes+size > b.limits.MaxBytes,
		client != nil && client.active >= b.limits.MaxMessagesPerClient:
		b.lose(synchronizer.DropReplayCapacity, id, r)
		return false
	}
	if client == nil {
		client = &waiting{id: id}
		b.clients[id] = client
	}
	k := &kept{receipt: at, data: pack(r, size), client: client}
	b.insert(k)
	for len(client.list) > b.limits.MaxMessagesPerClient {
		b.evict(client.list[client.active])
	}
	for k := b.first; b.count > b.limits.MaxMessages || b.bytes > b.limits.MaxBytes; {
		next := k.newer
		if !k.active {
			b.evict(k)
		}
		k = next
	}
	return true
}

// insert links k into both orders.
func (b *backlog) insert(k *kept) {
	list := k.client.list
	at, _ := slices.BinarySearchFunc(list, k.seq, func(k *kept, seq uint64) int { return cmp.Compare(k.seq, seq) })
	k.client.list = slices.Insert(list, at, k)

	// Most are the newest; those that are given back are among the oldest.
	after := b.last
	if after != nil && after.seq > k.seq {
		for after = nil; ; {
			next := b.first
			if after != nil {
				next = after.newer
			}
			if next.seq > k.seq {
				break
			}
			after = next
		}
	}
	k.older = after
	if after == nil {
		k.newer, b.first = b.first, k
	} else {
		k.newer, after.newer = after.newer, k
	}
	if k.newer == nil {
		b.last = k
	} else {
		k.newer.older = k
	}
	b.count++
	b.bytes += int64(len(k.data))
}

// remove unlinks k, whose place was.
func (b *backlog) remove(k *kept) {
	if k.active {
		b.idle(k)
	}
	client := k.client
	at, _ := slices.BinarySearchFunc(client.list, k.seq, func(k *kept, seq uint64) int { return cmp.Compare(k.seq, seq) })
	if at == 0 {
		client.list[0] = nil
		client.list = client.list[1:]
	} else {
		client.list = slices.Delete(client.list, at, at+1)
	}
	if len(client.list) == 0 {
		delete(b.clients, client.id)
	}
	if k.older == nil {
		b.first = k.newer
	} else {
		k.older.newer = k.newer
	}
	if k.newer == nil {
		b.last = k.older
	} else {
		k.newer.older = k.older
	}
	k.older, k.newer = nil, nil
	b.count--
	b.bytes -= int64(len(k.data))
}

// take gives the oldest of a client that is not being replayed, and makes it
// active; nil if there is none. What has expired is never given.
func (b *backlog) take(id synchronizer.ClusterID, now time.Duration) *kept {
	b.expire(now)
	client := b.clients[id]
	if client == nil || client.active == len(client.list) {
		return nil
	}
	k := client.list[client.active]
	k.active = true
	client.active++
	b.active++
	b.activeBytes += int64(len(k.data))
	return k
}

// idle makes k wait again, at its place. All that are active of a client become
// idle before another is taken, so that their order holds.
func (b *backlog) idle(k *kept) {
	k.active = false
	k.client.active--
	b.active--
	b.activeBytes -= int64(len(k.data))
}

// expire removes what is too old.
func (b *backlog) expire(now time.Duration) {
	for k := b.first; k != nil && now-k.at >= b.limits.TTL; {
		next := k.newer
		if !k.active {
			b.drop(synchronizer.DropReplayExpired, k)
		}
		k = next
	}
}

// clear removes all that is not being replayed and reports how much that was.
func (b *backlog) clear() (messages int) {
	for k := b.first; k != nil; {
		next := k.newer
		if !k.active {
			b.remove(k)
			messages++
		}
		k = next
	}
	return messages
}

func (b *backlog) evict(k *kept) { b.drop(synchronizer.DropReplayCapacity, k) }

func (b *backlog) drop(reason synchronizer.DropReason, k *kept) {
	r := k.record()
	b.lose(reason, k.client.id, &r)
	b.remove(k)
}

func (b *backlog) lose(reason synchronizer.DropReason, id synchronizer.ClusterID, r *synchronizer.Record) {
	b.lost = append(b.lost, loss{reason, describe(id, r)})
}

// describe names a record without decoding its payload.
func describe(id synchronizer.ClusterID, r *synchronizer.Record) string {
	return fmt.Sprintf("%s %s %s/%s/%s %s/%s", r.Property(queue.PropertyEvent), id,
		r.Property(queue.PropertyGroup), r.Property(queue.PropertyVersion), r.Property(queue.PropertyResource),
		r.Property(queue.PropertyNamespace), r.Property(queue.PropertyName))
}
