// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"synchronizer"
)

const (
	deniedMin = time.Second // after a 403, doubled with every further one
	deniedMax = time.Minute

	emptyPause = time.Second
)

// presence is what is known of a kind in the cluster.
type presence uint8

const (
	presencePending presence = iota // not looked for yet
	presenceUnknown                 // nobody can tell; a request will
	presenceServed
	presenceMissing // not served; objects that were known are kept
	presenceRemoved // its definition was deleted, and so were its objects
)

// gate stands between the owner of a kind and the cluster. A request for a kind
// that is not served waits in it, and costs the API server nothing, until the
// kind comes; so does one that was forbidden, and is tried again. To the owner
// a kind whose definition was deleted looks like one whose objects were: a list
// is complete and empty. Nothing but the owner's own list decides what is
// deleted, so that the rules for absence hold here too.
type gate struct {
	kind    synchronizer.Kind
	cluster synchronizer.Cluster
	clock   Clock
	log     *slog.Logger
	wild    bool                         // a wildcard meant it
	lost    func(context.Context, *gate) // hears that the kind is not served; nil: the owner retries
	first   *semaphore.Weighted

	mu       sync.Mutex
	presence presence
	changed  chan struct{} // closed and replaced with every change of presence
	detail   string        // of presenceMissing, for people
	since    time.Time     // of presence, or of the first refusal
	denied   string        // the last refusal that no success followed
	listed   bool          // a list was complete
	known    bool          // the owner may know objects
	relist   bool          // a watch would miss things
	emptied  bool          // a list has shown that the kind was removed
	hasCRD   bool          // the kind comes from a custom resource definition
	stop     context.CancelFunc
}

func newGate(a *Agent, kind synchronizer.Kind, cluster synchronizer.Cluster, first *semaphore.Weighted) *gate {
	clock := a.options.Clock
	return &gate{
		kind: kind, cluster: cluster, clock: clock, log: a.options.Logger, first: first,
		presence: presenceUnknown, changed: make(chan struct{}), since: clock.Now(),
	}
}

// set changes the presence and reports whether it was another one.
func (g *gate) set(to presence, detail string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.presence == to {
		return false
	}
	if to == presenceServed || to == presenceUnknown {
		g.relist = g.relist || g.known && g.presence >= presenceMissing
	}
	g.presence, g.detail, g.since, g.emptied = to, detail, g.clock.Now(), false
	close(g.changed)
	g.changed = make(chan struct{})
	return true
}

func (g *gate) get() (presence, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.presence, g.changed
}

// interrupt ends a watch that runs, which then begins with a list: the
// definition of the kind was deleted or replaced.
func (g *gate) interrupt() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.relist = g.relist || g.known
	if g.stop != nil {
		g.stop()
	}
}

// pass waits until a request can be sent; without known objects there is
// nothing to do for a kind that was removed.
func (g *gate) pass(ctx context.Context) (presence, error) {
	for {
		now, changed := g.get()
		switch now {
		case presenceUnknown, presenceServed:
			return now, nil
		case presenceRemoved:
			g.mu.Lock()
			known := g.known
			g.mu.Unlock()
			if known {
				return now, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}

// List implements synchronizer.Cluster.
func (g *gate) List(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	for refusals := 0; ; {
		now, err := g.pass(ctx)
		switch {
		case err != nil:
			return "", err
		case now == presenceRemoved:
			return "", g.empty(ctx)
		}
		given := false
		version, err := g.list(ctx, kind, func(o synchronizer.Object) error {
			given = true
			return each(o)
		})
		if given || err == nil {
			g.noteKnown(err == nil)
		}
		switch {
		case err == nil:
			g.allowed()
			return version, nil
		case given || ctx.Err() != nil:
			return "", err
		case errors.Is(err, synchronizer.ErrKindNotServed) && g.lost != nil:
			g.missing(ctx)
		case errors.Is(err, synchronizer.ErrForbidden):
			if err := g.refused(ctx, err, &refusals); err != nil {
				return "", err
			}
		default:
			return "", err
		}
	}
}

// empty is the list of a kind that was removed. The owner may ask again and
// again while it holds what vanished; it costs no request, and so a pause.
func (g *gate) empty(ctx context.Context) error {
	g.mu.Lock()
	again := g.emptied
	g.emptied = true
	g.mu.Unlock()
	if !again {
		return nil
	}
	after, free := g.clock.After(emptyPause)
	defer free()
	select {
	case <-after:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// list is one list; of those that are the first of their kind only some run at
// the same time.
func (g *gate) list(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	g.mu.Lock()
	first := !g.listed
	g.mu.Unlock()
	if first {
		if err := g.first.Acquire(ctx, 1); err != nil {
			return "", err
		}
		defer g.first.Release(1)
	}
	return g.cluster.List(ctx, kind, each)
}

func (g *gate) noteKnown(complete bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known = true
	if complete {
		g.listed, g.relist = true, false
	}
}

// Watch implements synchronizer.Cluster.
func (g *gate) Watch(ctx context.Context, kind synchronizer.Kind, version string, each func(synchronizer.WatchEvent) error) error {
	for refusals := 0; ; {
		if again, err := g.passWatch(ctx); err != nil {
			return err
		} else if again {
			return synchronizer.ErrGone
		}
		err := g.watch(ctx, kind, &version, each)
		switch {
		case ctx.Err() != nil, err == nil:
			return err
		case errors.Is(err, synchronizer.ErrKindNotServed) && g.lost != nil:
			g.missing(ctx)
		case errors.Is(err, synchronizer.ErrForbidden):
			if err := g.refused(ctx, err, &refusals); err != nil {
				return err
			}
		case errors.Is(err, errInterrupted):
		default:
			return err
		}
	}
}

// passWatch is pass for a watch; relist says that a list has to come first.
// Behind the list of a kind that was removed it waits until the kind is back.
func (g *gate) passWatch(ctx context.Context) (relist bool, err error) {
	for {
		g.mu.Lock()
		now, changed, again, unseen := g.presence, g.changed, g.relist, g.known && !g.emptied
		g.mu.Unlock()
		switch {
		case now == presenceServed || now == presenceUnknown:
			return again, nil
		case now == presenceRemoved && unseen:
			return true, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

var errInterrupted = errors.New("the definition of the kind has changed")

func (g *gate) watch(ctx context.Context, kind synchronizer.Kind, version *string, each func(synchronizer.WatchEvent) error) error {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	g.mu.Lock()
	if g.relist {
		g.mu.Unlock()
		return synchronizer.ErrGone
	}
	g.stop = stop
	g.mu.Unlock()
	err := g.cluster.Watch(inner, kind, *version, func(e synchronizer.WatchEvent) error {
		g.allowed()
		if e.Object.ResourceVersion != "" {
			*version = e.Object.ResourceVersion
		}
		return each(e)
	})
	if err == nil || errors.Is(err, synchronizer.ErrGone) {
		g.allowed()
	}
	if inner.Err() != nil && ctx.Err() == nil {
		return errInterrupted
	}
	return err
}

// Get implements synchronizer.Cluster.
func (g *gate) Get(ctx context.Context, kind synchronizer.Kind, namespace, name string) (synchronizer.Object, error) {
	switch now, _ := g.get(); now {
	case presenceRemoved:
		return synchronizer.Object{}, synchronizer.ErrNotFound
	case presenceMissing:
		return synchronizer.Object{}, synchronizer.ErrKindNotServed
	}
	return g.cluster.Get(ctx, kind, namespace, name)
}

// refused waits after an answer that forbids. RBAC tells nobody that it has
// changed, so it is tried again, at first soon.
func (g *gate) refused(ctx context.Context, err error, times *int) error {
	delay := spread(min(deniedMin<<min(*times, 10), deniedMax*2/3))
	*times++
	g.mu.Lock()
	if g.denied == "" {
		g.since = g.clock.Now()
		g.log.Warn("kind is forbidden; it is tried again at most a minute apart", "kind", g.kind.String(), "error", err)
	}
	g.denied = err.Error()
	changed := g.changed
	g.mu.Unlock()
	after, free := g.clock.After(delay)
	defer free()
	select {
	case <-after:
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// missing takes note of a 404.
func (g *gate) missing(ctx context.Context) {
	g.mu.Lock()
	removed := g.presence == presenceRemoved
	g.mu.Unlock()
	if !removed && g.set(presenceMissing, "the API server does not serve it any more") {
		g.log.Info("kind is not served any more; it is waited for", "kind", g.kind.String())
	}
	g.lost(ctx, g)
}

func (g *gate) noteCRD() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hasCRD = true
}

func (g *gate) fromCRD() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hasCRD
}

func (g *gate) servedSince() (since time.Time, served bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.since, g.presence == presenceServed
}

// over tells whether a kind that a wildcard meant was removed before a time.
func (g *gate) over(before time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wild && g.presence == presenceRemoved && g.since.Before(before)
}

func (g *gate) allowed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.denied != "" {
		g.denied, g.since = "", g.clock.Now()
		g.log.Info("kind is allowed now", "kind", g.kind.String())
	}
}

// blocked tells why requests of the kind wait, if they do.
func (g *gate) blocked() (state State, reason string, since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.presence == presenceMissing && g.known:
		return StateNotServed, g.detail, g.since
	case g.presence == presenceMissing, g.presence == presenceRemoved:
		return StateAwaited, g.detail, g.since
	case g.denied != "":
		return StateForbidden, g.denied, g.since
	}
	return "", "", g.since
}
