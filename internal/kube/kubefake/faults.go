// SPDX-License-Identifier: Apache-2.0

package kubefake

import (
	"strconv"

	"synchronizer"
)

// FailList makes every List of the kind fail before its first item; nil ends it.
func (c *Cluster) FailList(kind synchronizer.Kind, err error) { c.setFail(kind, VerbList, err) }

// FailWatch makes every new Watch of the kind fail; nil ends it. Watches that
// run go on, see BreakWatches.
func (c *Cluster) FailWatch(kind synchronizer.Kind, err error) { c.setFail(kind, VerbWatch, err) }

// FailGet makes every Get of the kind fail; nil ends it.
func (c *Cluster) FailGet(kind synchronizer.Kind, err error) { c.setFail(kind, VerbGet, err) }

func (c *Cluster) setFail(kind synchronizer.Kind, verb Verb, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind(kind).fail[verb] = err
}

// FailNext makes the next requests fail, one error each; a nil error lets one
// request through. It comes before FailList and the like.
func (c *Cluster) FailNext(verb Verb, kind synchronizer.Kind, errs ...error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kind(kind)
	k.failOnce[verb] = append(k.failOnce[verb], errs...)
}

// FailListAfter makes the next List of the kind fail behind its nth item, or
// behind its last one if there are fewer.
func (c *Cluster) FailListAfter(kind synchronizer.Kind, n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind(kind).listFail = &listFailure{n, err}
}

// FailItem gives an object Err instead of a body, in lists and watches; nil
// ends it.
func (c *Cluster) FailItem(kind synchronizer.Kind, namespace, name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind(kind).itemErr[namespace+"/"+name] = err
}

// Hold keeps requests waiting until release is called (once or more often). A
// List has its snapshot by then, a Get reads afterwards, and a Watch starts
// afterwards. See Held.
func (c *Cluster) Hold(verb Verb, kind synchronizer.Kind) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, gate := c.kind(kind), make(chan struct{})
	k.hold[verb] = gate
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if k.hold[verb] == gate {
			delete(k.hold, verb)
			close(gate)
		}
	}
}

// Held counts the requests that Hold keeps waiting.
func (c *Cluster) Held(verb Verb, kind synchronizer.Kind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kind(kind).waiting[verb]
}

// OnGet is called behind every successful Get has read, before it returns; for
// changing the object meanwhile. Nil ends it.
func (c *Cluster) OnGet(kind synchronizer.Kind, fn func(namespace, name string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind(kind).onGet = fn
}

// Hollow makes List and Watch give only type and metadata, as the storage API
// server does; Get gives all.
func (c *Cluster) Hollow(kind synchronizer.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind(kind).hollow = true
}

// BreakWatches ends the running watches of the kind with ErrBroken.
func (c *Cluster) BreakWatches(kind synchronizer.Kind) { c.endWatches(kind, ErrBroken) }

// EndWatches ends the running watches of the kind as the API server does at its
// time limit: without an error.
func (c *Cluster) EndWatches(kind synchronizer.Kind) { c.endWatches(kind, nil) }

// ExpireWatches ends the running watches of the kind with ErrGone, as a watch
// does that cannot keep up.
func (c *Cluster) ExpireWatches(kind synchronizer.Kind) { c.endWatches(kind, synchronizer.ErrGone) }

func (c *Cluster) endWatches(kind synchronizer.Kind, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kind(kind)
	k.breaks++
	k.breakWith = err
	c.wake()
}

// CompactBefore makes watches from a resourceVersion older than this one end
// with ErrGone. Watches that run are not touched. Compact everything with
// CompactBefore(c.ResourceVersion()).
func (c *Cluster) CompactBefore(resourceVersion string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, err := strconv.ParseInt(resourceVersion, 10, 64); err == nil {
		c.compacted = max(c.compacted, v)
	}
}

// Bookmark sends the current resourceVersion to the watches of the kind.
func (c *Cluster) Bookmark(kind synchronizer.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kind(kind)
	mark := &object{Object: synchronizer.Object{ResourceVersion: strconv.FormatInt(c.version, 10)}}
	k.log = append(k.log, event{c.version, synchronizer.WatchBookmark, mark})
	c.wake()
}

// Lists counts the requests so far.
func (c *Cluster) Lists(kind synchronizer.Kind) int { return c.counted(kind, VerbList) }

// Watches counts the requests so far.
func (c *Cluster) Watches(kind synchronizer.Kind) int { return c.counted(kind, VerbWatch) }

// Gets counts the requests so far.
func (c *Cluster) Gets(kind synchronizer.Kind) int { return c.counted(kind, VerbGet) }

func (c *Cluster) counted(kind synchronizer.Kind, verb Verb) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kind(kind).count[verb]
}

// Watching counts the watches that run now.
func (c *Cluster) Watching(kind synchronizer.Kind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kind(kind).watching
}
