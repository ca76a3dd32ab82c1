// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"synchronizer"
	"synchronizer/internal/catalog"
)

const (
	discoveryMin      = 30 * time.Second // between two looks at all groups
	discoveryBlind    = time.Minute      // between them without the right to watch definitions
	discoveryWatching = 10 * time.Minute // between them with it
	discoveryTimeout  = 15 * time.Second
	missedMin         = 250 * time.Millisecond
	watchRetryMax     = time.Minute
	watchRetryDenied  = 10 * time.Minute
	removedKept       = 3 * time.Minute // how long a removed kind that a wildcard meant stays in the status
	manyGroups        = 8               // that changed at once: they are looked at together
)

// groupDelays are the times, behind an event, at which its group is looked at:
// the API server needs up to some seconds to serve what was defined.
var groupDelays = [...]time.Duration{100 * time.Millisecond, 900 * time.Millisecond, 2 * time.Second, 4 * time.Second, 8 * time.Second}

// Discovery is how the agent learns what kinds a cluster serves.
type Discovery interface {
	// Groups looks at all groups, Group at one, which has no versions if it is not served.
	Groups(ctx context.Context) ([]catalog.Group, error)
	Group(ctx context.Context, name string) (catalog.Group, error)
	// CRD gives the uid of a custom resource definition; ErrNotFound if there is none.
	CRD(ctx context.Context, name string) (uid string, err error)
	// WatchDefinitions lists custom resource definitions or API services and tells
	// each what happens to them, until ctx ends or an error. Behind the list comes
	// a Listed without a name.
	WatchDefinitions(ctx context.Context, kind synchronizer.Kind, each func(catalog.Definition)) error
}

// The two kinds of definitions.
var (
	crds        = synchronizer.Kind{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = synchronizer.Kind{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// kinds follows what the cluster serves. One goroutine, run, owns the fields
// below it; the gates of the kinds learn from it whether they are open.
type kinds struct {
	agent     *Agent
	discovery Discovery
	entries   []KindConfig
	definings chan defining
	lost      chan *gate

	following atomic.Bool // both definitions are watched

	catalog  catalog.Catalog
	watching map[synchronizer.Kind]bool // definitions whose watch runs
	blind    bool                       // one of them cannot be watched, which was logged
	crds     map[string]catalog.Definition
	groups   map[string]*groupLook
	suspects map[*gate]*suspicion
	misses   map[*gate]int // 404s although discovery has the kind, in a row
	fullAt   time.Time     // the next look at all groups
	lastFull time.Time     // the last one that succeeded; zero if there was none
	failures int           // of it, in a row
}

// defining is what the watchers tell run.
type defining struct {
	kind synchronizer.Kind
	is   catalog.Definition
	err  error // the watch has ended
}

// groupLook is a group that is looked at again.
type groupLook struct {
	at   time.Time
	step int // of groupDelays
	once bool
	last time.Time
}

// suspicion is a kind whose definition seems to be gone.
type suspicion struct {
	at    time.Time
	times int
}

func newKinds(a *Agent) *kinds {
	return &kinds{
		agent: a, discovery: a.options.Discovery, entries: a.options.Kinds,
		definings: make(chan defining, 16), lost: make(chan *gate, 16),
		watching: map[synchronizer.Kind]bool{}, crds: map[string]catalog.Definition{},
		groups: map[string]*groupLook{}, suspects: map[*gate]*suspicion{}, misses: map[*gate]int{},
	}
}

// run works until ctx ends.
func (k *kinds) run(ctx context.Context) {
	var watchers sync.WaitGroup
	defer watchers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, kind := range []synchronizer.Kind{crds, apiServices} {
		watchers.Go(func() { k.watchDefinitions(ctx, kind) })
	}
	k.fullAt = k.now()
	for ctx.Err() == nil {
		k.work(ctx)
		timer, free := k.agent.options.Clock.After(max(0, k.deadline().Sub(k.now())))
		select {
		case <-ctx.Done():
		case <-timer:
		case d := <-k.definings:
			k.defined(d)
		case g := <-k.lost:
			k.missed(g)
		}
		free()
	}
}

func (k *kinds) now() time.Time { return k.agent.options.Clock.Now() }

// how says, for people, how changes are noticed.
func (k *kinds) how() string {
	if k.following.Load() {
		return "definitions are watched"
	}
	return "all groups are looked at every minute"
}

// watchDefinitions keeps one watch going.
// defined takes note of what happened to a definition.
// suspect looks whether a definition is gone, and ends what runs for its kinds.
// lookAt plans looks at a group, or one of them.
// concerns tells whether a configured kind can be of the group.
// tellLost says, for a gate, that the API server does not serve its kind.
// missed hears that the API server does not serve the kind of a gate. If
// discovery has it nevertheless, it is tried again, at first soon: what was
// defined just now takes a moment.
// hit hears that a kind was there all the time between two 404s.
func (k *kinds) wantFull(at time.Time) {
	if !k.lastFull.IsZero() && at.Before(k.lastFull.Add(discoveryMin)) {
		at = k.lastFull.Add(discoveryMin)
	}
	if at.Before(k.fullAt) {
		k.fullAt = at
	}
}

func (k *kinds) deadline() time.Time {
	first := k.fullAt
	sooner := func(at time.Time) {
		if !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	for _, look := range k.groups {
		sooner(look.at)
	}
	for _, s := range k.suspects {
		sooner(s.at)
	}
	return first
}

// work does what is due.
func (k *kinds) work(ctx context.Context) {
	for g, s := range k.suspects {
		if !k.now().Before(s.at) {
			k.investigate(ctx, g, s)
		}
	}
	if !k.now().Before(k.fullAt) {
		k.lookAtAll(ctx)
	}
	var due []string
	for group, look := range k.groups {
		if !look.at.IsZero() && !k.now().Before(look.at) {
			due = append(due, group)
		}
	}
	if len(due) > manyGroups {
		k.wantFull(k.now())
		for _, group := range due {
			k.groups[group].at = time.Time{}
		}
		return
	}
	for _, group := range due {
		k.lookAtGroup(ctx, group)
	}
}

// lookAtAll looks at all groups.
func (k *kinds) lookAtAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	groups, err := k.discovery.Groups(ctx)
	if err != nil {
		delay := min(time.Second<<min(k.failures, 10), discoveryBlind)
		k.failures++
		k.fullAt = k.now().Add(spread(delay))
		k.agent.options.Logger.Debug("cannot ask the API server for its kinds", "error", err)
		k.guess()
		return
	}
	k.failures, k.lastFull = 0, k.now()
	k.fullAt = k.lastFull.Add(discoveryBlind)
	if k.following.Load() {
		k.fullAt = k.lastFull.Add(discoveryWatching)
	}
	k.catalog.Replace(groups)
	k.apply(func(string) bool { return true })
}

// lookAtGroup looks at one group, and plans the next look if there is no news.
func (k *kinds) lookAtGroup(ctx context.Context, group string) {
	look := k.groups[group]
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	g, err := k.discovery.Group(ctx, group)
	look.last = k.now()
	news := err == nil && k.catalog.Put(g)
	if err == nil {
		k.apply(func(name string) bool { return name == group })
	}
	look.step++
	switch {
	case look.once, look.step >= len(groupDelays), news && !k.waits(group):
		look.at, look.step = time.Time{}, 0
		if k.waits(group) && k.blind {
			k.wantFull(k.now().Add(discoveryBlind))
		}
	default:
		look.at = look.last.Add(groupDelays[look.step])
	}
}

// waits tells whether a kind of the group has a definition and is not served yet.
func (k *kinds) waits(group string) bool {
	for _, g := range k.agent.running.allGates() {
		if now, _ := g.get(); g.kind.Group == group && now >= presenceMissing && k.crds[definitionOf(g.kind)].Name != "" {
			return true
		}
	}
	return false
}

// guess lets requests find out what is served where nothing else can tell.
func (k *kinds) guess() {
	for _, g := range k.agent.running.allGates() {
		if now, _ := g.get(); now == presencePending || now == presenceMissing {
			g.set(presenceUnknown, "")
		}
	}
}

// apply opens and closes gates by the catalog, for the groups that look chooses,
// and starts kinds that wildcards mean.
func (k *kinds) apply(look func(group string) bool) {
	for _, g := range k.agent.running.allGates() {
		if !look(g.kind.Group) {
			continue
		}
		now, _ := g.get()
		k.hit(g)
		switch k.catalog.Presence(g.kind) {
		case catalog.Served:
			if k.crds[definitionOf(g.kind)].Name != "" {
				g.noteCRD()
			}
			if g.set(presenceServed, "") && now >= presenceMissing {
				delete(k.suspects, g)
				k.agent.options.Logger.Info("kind is served now", "kind", g.kind.String())
			}
		case catalog.NotServed:
			if now == presencePending || now == presenceUnknown {
				k.close(g)
			}
		case catalog.Unknown:
			if now == presencePending || now == presenceMissing {
				g.set(presenceUnknown, "")
			}
		}
	}
	k.expand()
}

// expand starts the kinds that wildcards mean, and ends those that were removed.
func (k *kinds) expand() {
	patterns := make([]synchronizer.Kind, len(k.entries))
	wild := false
	for i := range k.entries {
		patterns[i] = k.entries[i].Kind
		wild = wild || catalog.IsPattern(patterns[i])
	}
	if !wild {
		return
	}
	inUse := func(kind synchronizer.Kind) bool { return k.agent.running.stream(kind) != nil }
	for kind, i := range catalog.Expand(patterns, &k.catalog, inUse) {
		if inUse(kind) {
			continue
		}
		c := k.entries[i]
		c.Kind = kind
		k.agent.options.Logger.Info("kind is synchronized because of a wildcard", "kind", kind.String(), "entry", patterns[i].String())
		g := k.agent.running.startWild(c)
		if k.crds[definitionOf(kind)].Name != "" {
			g.noteCRD()
		}
		g.set(presenceServed, "")
	}
	for _, g := range k.agent.running.allGates() {
		if g.over(k.now().Add(-removedKept)) {
			k.agent.running.endWild(g.kind)
			delete(k.suspects, g)
			delete(k.misses, g)
		}
	}
}

// close marks a kind that is not served.
func (k *kinds) close(g *gate) {
	reason := "the API server does not serve it"
	if strings.Contains(g.kind.Group, ".") && k.crds[definitionOf(g.kind)].Name == "" {
		reason = "waiting for a custom resource definition or API service to serve it"
	}
	if g.set(presenceMissing, reason) {
		k.agent.options.Logger.Info("kind is not served; it is waited for", "kind", g.kind.String())
	}
}

// investigate finds out whether the definition of a kind was deleted. Only that
// deletes objects: a version that is gone, an aggregated API server that is down
// or an answer that nobody may have do not.
