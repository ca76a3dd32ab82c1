// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"time"

	"synchronizer"
	"synchronizer/internal/catalog"
)

func (k *kinds) watchDefinitions(ctx context.Context, kind synchronizer.Kind) {
	tell := func(d defining) {
		select {
		case k.definings <- d:
		case <-ctx.Done():
		}
	}
	for failures := 0; ; failures++ {
		err := k.discovery.WatchDefinitions(ctx, kind, func(d catalog.Definition) {
			failures = 0
			tell(defining{kind: kind, is: d})
		})
		if ctx.Err() != nil {
			return
		}
		tell(defining{kind: kind, err: err})
		delay := spread(min(time.Second<<min(failures, 10), watchRetryMax))
		if errors.Is(err, synchronizer.ErrForbidden) || errors.Is(err, synchronizer.ErrKindNotServed) {
			delay = watchRetryDenied
		}
		after, free := k.agent.options.Clock.After(delay)
		select {
		case <-after:
		case <-ctx.Done():
		}
		free()
	}
}

func (k *kinds) defined(d defining) {
	name := d.is.Name
	switch {
	case d.err != nil:
		k.watching[d.kind] = false
		k.following.Store(false)
		if errors.Is(d.err, synchronizer.ErrForbidden) && !k.blind {
			k.blind = true
			k.agent.options.Logger.Info("custom resource definitions and API services cannot be watched: new kinds are looked for every minute", "error", d.err)
		}
		k.wantFull(k.now().Add(discoveryBlind))
		return
	case d.is.Change == catalog.Listed && name == "":
		if !k.watching[d.kind] {
			k.watching[d.kind] = true
			k.following.Store(k.watching[crds] && k.watching[apiServices])
			k.wantFull(k.now()) // what happened before it was not seen
		}
		return
	case d.kind == apiServices:
		if d.is.Change != catalog.Listed {
			k.lookAt(d.is.Group(), true)
		}
		return
	}
	before, known := k.crds[name]
	replaced := known && before.UID != d.is.UID
	if d.is.Change == catalog.Deleted {
		delete(k.crds, name)
	} else {
		k.crds[name] = d.is
	}
	if replaced || d.is.Change == catalog.Deleted {
		k.suspect(name)
	}
	switch {
	case d.is.Change == catalog.Added, d.is.Change == catalog.Deleted, replaced:
		k.lookAt(d.is.Group(), false)
	case d.is.Change == catalog.Modified:
		k.lookAt(d.is.Group(), before.Generation == d.is.Generation)
	}
	for _, g := range k.agent.running.allGates() {
		if definitionOf(g.kind) == name && d.is.Change != catalog.Deleted {
			g.noteCRD()
		}
	}
}

func definitionOf(kind synchronizer.Kind) string { return kind.Resource + "." + kind.Group }

func (k *kinds) suspect(name string) {
	for _, g := range k.agent.running.allGates() {
		if definitionOf(g.kind) == name {
			g.interrupt()
			if k.suspects[g] == nil {
				k.suspects[g] = &suspicion{at: k.now()}
			}
		}
	}
}

func (k *kinds) lookAt(group string, once bool) {
	if !k.concerns(group) {
		return
	}
	switch look := k.look(group); {
	case !once:
		look.at, look.step, look.once = k.now().Add(groupDelays[0]), 0, false
	case look.at.IsZero():
		at := k.now().Add(groupDelays[1])
		if next := look.last.Add(discoveryMin); at.Before(next) && !look.last.IsZero() {
			at = next
		}
		look.at, look.once = at, true
	}
}

func (k *kinds) look(group string) *groupLook {
	look := k.groups[group]
	if look == nil {
		look = &groupLook{}
		k.groups[group] = look
	}
	return look
}

func (k *kinds) concerns(group string) bool {
	for i := range k.entries {
		if g := k.entries[i].Kind.Group; g == group || g == catalog.Any {
			return true
		}
	}
	return false
}

func (k *kinds) tellLost(ctx context.Context, g *gate) {
	select {
	case k.lost <- g:
	case <-ctx.Done():
	}
}

func (k *kinds) missed(g *gate) {
	if now, _ := g.get(); now != presenceMissing {
		return
	}
	if k.suspects[g] == nil {
		k.suspects[g] = &suspicion{at: k.now()}
	}
	delay := min(missedMin<<min(k.misses[g], 10), discoveryMin)
	k.misses[g]++
	look := k.look(g.kind.Group)
	if at := k.now().Add(delay); look.at.IsZero() || at.Before(look.at) {
		look.at, look.once = at, look.at.IsZero() || look.once
	}
}

func (k *kinds) hit(g *gate) {
	if at, served := g.servedSince(); served && k.now().Sub(at) > discoveryMin {
		delete(k.misses, g)
	}
}

func (k *kinds) investigate(ctx context.Context, g *gate, s *suspicion) {
	if !g.fromCRD() {
		delete(k.suspects, g)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	_, err := k.discovery.CRD(ctx, definitionOf(g.kind))
	switch now, _ := g.get(); {
	case err == nil, errors.Is(err, synchronizer.ErrForbidden):
		delete(k.suspects, g)
		if now == presenceMissing {
			k.lookAt(g.kind.Group, false)
		}
	case errors.Is(err, synchronizer.ErrNotFound):
		delete(k.suspects, g)
		delete(k.crds, definitionOf(g.kind))
		if g.set(presenceRemoved, "its custom resource definition was deleted") {
			k.agent.options.Logger.Warn("the definition of a kind was deleted, and so were its objects", "kind", g.kind.String())
		}
		k.lookAt(g.kind.Group, false)
	default:
		s.at = k.now().Add(spread(min(time.Second<<min(s.times, 10), discoveryBlind)))
		s.times++
	}
}
