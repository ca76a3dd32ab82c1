// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"synchronizer"
	"synchronizer/internal/checksum"
)

// feedBytes bounds the bodies between the feeder of a kind and its owner.
const feedBytes = 256 << 10

// maxScratch is the largest buffer that is kept for the next object, in bytes.
const maxScratch = 1 << 20

// feedItem is one thing that a list or watch gave.
type feedItem struct {
	ended  bool // the last one; err and cursor say how
	typ    synchronizer.WatchEventType
	item   item
	cursor string
	err    error
	cost   int64 // of the budget, to be given back
}

// feeder runs one list or one watch in a goroutine of its own, so that the owner
// of the kind can do other things meanwhile. It ends with an item that says so,
// or silently when it is stopped.
type feeder struct {
	items  chan feedItem
	budget *semaphore.Weighted
	stop   context.CancelFunc
	list   bool
}

func (s *stream) startFeeder(list bool, cursor string) {
	ctx, cancel := context.WithCancel(s.ctx)
	f := &feeder{items: make(chan feedItem, batchMessages), budget: semaphore.NewWeighted(feedBytes), stop: cancel, list: list}
	s.feed = f
	s.running.Go(func() {
		defer cancel()
		if list {
			f.finish(ctx, s.runList(ctx, f))
		} else {
			f.finish(ctx, s.runWatch(ctx, f, cursor))
		}
	})
}

func (s *stream) runList(ctx context.Context, f *feeder) feedItem {
	var scratch []byte
	cursor, err := s.cluster.List(ctx, s.kind, func(o synchronizer.Object) error {
		return f.hand(ctx, feedItem{item: s.seen(o, &scratch)})
	})
	return feedItem{cursor: cursor, err: err}
}

func (s *stream) runWatch(ctx context.Context, f *feeder, cursor string) feedItem {
	var scratch []byte
	err := s.cluster.Watch(ctx, s.kind, cursor, func(e synchronizer.WatchEvent) error {
		next := feedItem{typ: e.Type, cursor: e.Object.ResourceVersion}
		switch e.Type {
		case synchronizer.WatchDeleted:
			next.item.key = keyOf(e.Object.Namespace, strings.Clone(e.Object.Name))
			if !s.agent.options.Filter.Namespace(e.Object.Namespace) {
				next.item.problem = excluded
			}
		case synchronizer.WatchAdded, synchronizer.WatchModified:
			next.item = s.seen(e.Object, &scratch)
		}
		return f.hand(ctx, next)
	})
	return feedItem{err: err}
}

func (f *feeder) hand(ctx context.Context, next feedItem) error {
	next.cost = min(int64(len(next.item.body)), feedBytes)
	if err := f.budget.Acquire(ctx, next.cost); err != nil {
		return err
	}
	select {
	case f.items <- next:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *feeder) finish(ctx context.Context, last feedItem) {
	last.ended = true
	select {
	case f.items <- last:
	case <-ctx.Done():
	}
}

// readTimeout ends a GET that hangs, so that it does not keep its place from the
// reads of other kinds.
const readTimeout = 30 * time.Second

// read runs a GET. All kinds share a number of them.
func (s *stream) read(r *read) {
	s.metrics.reads.Inc()
	s.running.Go(func() {
		a := answer{read: r}
		var o synchronizer.Object
		if a.err = s.agent.reads.Acquire(s.ctx, 1); a.err == nil {
			ctx, cancel := context.WithTimeout(s.ctx, readTimeout)
			defer cancel()
			if o, a.err = s.cluster.Get(ctx, s.kind, r.key.namespace.Value(), r.key.name); a.err == nil {
				a.item = s.prepare(o, new([]byte))
				a.item.key = r.key
			}
			s.agent.reads.Release(1)
		}
		if a.err == nil && s.config.Hollow {
			a.item.digest = checksum.Hollow(o.UID, o.ResourceVersion)
		}
		select {
		case s.answers <- a:
		case <-s.ctx.Done():
		}
	})
}

// seen is what a list or watch gave.
func (s *stream) seen(o synchronizer.Object, scratch *[]byte) item {
	if !s.config.Hollow {
		return s.prepare(o, scratch)
	}
	it := item{
		key: keyOf(o.Namespace, strings.Clone(o.Name)), hollow: true,
		uid: parseUID(o.UID), version: parseVersion(o.ResourceVersion), digest: checksum.Hollow(o.UID, o.ResourceVersion),
	}
	// Whatever is wrong with the part that is seen, the GET tells what to do with
	// the object.
	if left, _ := s.filter(o); left == excluded || left == child {
		it.problem = left
	}
	return it
}

// prepare applies filter and policy. The result holds nothing of the object's
// own bytes; scratch is a buffer for the calls of one goroutine.
func (s *stream) prepare(o synchronizer.Object, scratch *[]byte) item {
	it := item{
		key: keyOf(o.Namespace, strings.Clone(o.Name)),
		uid: parseUID(o.UID), version: parseVersion(o.ResourceVersion),
	}
	left, body, err := s.transform(o, scratch)
	switch {
	case left == excluded, left == child:
		it.problem = left
	case err != nil:
		it.problem, it.detail = unreadable, err.Error()
	case len(body) > s.agent.options.MaxObjectBytes:
		it.problem, it.detail = tooLarge, fmt.Sprintf("%d bytes", len(body))
	default:
		if it.digest, err = checksum.V2(body); err != nil {
			it.problem, it.detail = unreadable, err.Error()
			break
		}
		it.body = bytes.Clone(body)
	}
	return it
}

// transform gives the object as it may leave the cluster, in o.Body or scratch.
func (s *stream) transform(o synchronizer.Object, scratch *[]byte) (left problem, body []byte, err error) {
	if left, err = s.filter(o); left != carried || err != nil {
		return left, nil, err
	}
	body, err = s.agent.options.Policy.Apply(*scratch, s.kind.Group, s.kind.Resource, o.Namespace, o.Body)
	if err == nil && len(body) > 0 && len(o.Body) > 0 && &body[0] != &o.Body[0] && cap(body) <= maxScratch {
		*scratch = body
	}
	return carried, body, err
}

// filter tells whether the rules leave an object out: excluded, child or carried.
// An error is about an object that cannot be read.
func (s *stream) filter(o synchronizer.Object) (problem, error) {
	rules := s.agent.options.Filter
	if !rules.Namespace(o.Namespace) {
		return excluded, nil
	}
	if o.Err != nil {
		return carried, o.Err
	}
	switch allowed, err := rules.Allows(s.kind, o.Namespace, o.Body); {
	case allowed:
		return carried, err
	case !rules.Namespace(o.Namespace): // since a moment ago
		return excluded, nil
	}
	return child, nil
}

// parseUID makes 16 bytes of an uid: its own, if it is a UUID in the usual form.
func parseUID(uid string) (id [16]byte) {
	if len(uid) == 36 && uid[8] == '-' && uid[13] == '-' && uid[18] == '-' && uid[23] == '-' {
		var text [32]byte
		compact := append(append(append(append(append(text[:0], uid[:8]...), uid[9:13]...), uid[14:18]...), uid[19:23]...), uid[24:]...)
		if _, err := hex.Decode(id[:], compact); err == nil {
			return id
		}
	}
	sum := sha256.Sum256([]byte(uid))
	copy(id[:], sum[:])
	return id
}

// parseVersion makes a number of a resourceVersion that is only compared for
// equality: its own, or, with the highest bit set, a hash of another text.
func parseVersion(version string) uint64 {
	if n, err := strconv.ParseUint(version, 10, 63); err == nil && (version == "0" || version[0] != '0') {
		return n
	}
	sum := sha256.Sum256([]byte(version))
	n := uint64(1) << 63
	for i, b := range sum[:8] {
		n |= uint64(b) << (8 * i)
	}
	return n
}
