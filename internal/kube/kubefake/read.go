// SPDX-License-Identifier: Apache-2.0

package kubefake

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"synchronizer"
)

// List implements synchronizer.Cluster.
func (c *Cluster) List(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	c.mu.Lock()
	k, err := c.begin(kind, VerbList)
	if err != nil {
		c.mu.Unlock()
		return "", err
	}
	version := strconv.FormatInt(c.version, 10)
	failure := k.listFail
	k.listFail = nil
	objects := make([]synchronizer.Object, 0, len(k.objects))
	for _, key := range sortedKeys(k.objects) {
		objects = append(objects, k.view(k.objects[key]))
	}
	c.mu.Unlock()

	if err := c.wait(ctx, k, VerbList); err != nil {
		return "", err
	}
	var lent lender
	for i, o := range objects {
		if failure != nil && i == failure.after {
			return "", failure.err
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := lent.lend(o, each); err != nil {
			return "", err
		}
	}
	if failure != nil {
		return "", failure.err
	}
	return version, ctx.Err()
}

// Watch implements synchronizer.Cluster. An empty resourceVersion gives what
// exists as WatchAdded first.
func (c *Cluster) Watch(ctx context.Context, kind synchronizer.Kind, resourceVersion string, each func(synchronizer.WatchEvent) error) error {
	c.mu.Lock()
	k, err := c.begin(kind, VerbWatch)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if err := c.wait(ctx, k, VerbWatch); err != nil {
		return err
	}

	c.mu.Lock()
	next, pending, err := c.startWatch(k, kind, resourceVersion)
	if err != nil {
		c.mu.Unlock()
		return err
	}
	breaks := k.breaks
	k.watching++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		k.watching--
		c.mu.Unlock()
	}()

	var lent lender
	for {
		for _, e := range pending {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := lent.lend(e.Object, func(o synchronizer.Object) error {
				return each(synchronizer.WatchEvent{Type: e.Type, Object: o})
			}); err != nil {
				return err
			}
		}
		c.mu.Lock()
		pending = pending[:0]
		for ; next < len(k.log); next++ {
			pending = append(pending, synchronizer.WatchEvent{Type: k.log[next].typ, Object: k.view(k.log[next].object)})
		}
		changed, broken, with := c.changed, k.breaks != breaks, k.breakWith
		c.mu.Unlock()
		switch {
		case len(pending) > 0:
			continue // events first: what happened before a break was seen
		case broken:
			return with
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// startWatch finds the place in the log; c.mu is held.
func (c *Cluster) startWatch(k *kindState, kind synchronizer.Kind, resourceVersion string) (next int, initial []synchronizer.WatchEvent, err error) {
	if resourceVersion == "" {
		for _, key := range sortedKeys(k.objects) {
			initial = append(initial, synchronizer.WatchEvent{Type: synchronizer.WatchAdded, Object: k.view(k.objects[key])})
		}
		return len(k.log), initial, nil
	}
	from, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return 0, nil, fmt.Errorf("watching %v: invalid resourceVersion %q", kind, resourceVersion)
	}
	if from < c.compacted {
		return 0, nil, fmt.Errorf("watching %v from %s: %w", kind, resourceVersion, synchronizer.ErrGone)
	}
	for next < len(k.log) && k.log[next].version <= from {
		next++
	}
	return next, nil, nil
}

// Get implements synchronizer.Cluster.
func (c *Cluster) Get(ctx context.Context, kind synchronizer.Kind, namespace, name string) (synchronizer.Object, error) {
	c.mu.Lock()
	k, err := c.begin(kind, VerbGet)
	c.mu.Unlock()
	if err != nil {
		return synchronizer.Object{}, err
	}
	if err := c.wait(ctx, k, VerbGet); err != nil {
		return synchronizer.Object{}, err
	}
	c.mu.Lock()
	found, onGet := k.objects[namespace+"/"+name], k.onGet
	c.mu.Unlock()
	if found == nil {
		return synchronizer.Object{}, fmt.Errorf("getting %v %s/%s: %w", kind, namespace, name, synchronizer.ErrNotFound)
	}
	o := found.Object
	o.Body = slices.Clone(o.Body)
	if onGet != nil {
		onGet(namespace, name)
	}
	return o, ctx.Err()
}

// begin counts a request and gives the error that it is to fail with; c.mu is held.
func (c *Cluster) begin(kind synchronizer.Kind, verb Verb) (*kindState, error) {
	k := c.kind(kind)
	k.count[verb]++
	if errs := k.failOnce[verb]; len(errs) > 0 {
		k.failOnce[verb] = errs[1:]
		if errs[0] != nil {
			return nil, errs[0]
		}
	} else if err := k.fail[verb]; err != nil {
		return nil, err
	}
	if !k.served {
		return nil, fmt.Errorf("reading %v: %w", kind, synchronizer.ErrKindNotServed)
	}
	return k, nil
}

// wait stays in front of a gate of Hold.
func (c *Cluster) wait(ctx context.Context, k *kindState, verb Verb) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	gate := k.hold[verb]
	if gate == nil {
		c.mu.Unlock()
		return nil
	}
	k.waiting[verb]++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		k.waiting[verb]--
		c.mu.Unlock()
	}()
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// view is an object as lists and watches give it; c.mu is held.
func (k *kindState) view(o *object) synchronizer.Object {
	seen := o.Object
	if k.hollow {
		seen.Body = o.hollow
	}
	if err := k.itemErr[o.Namespace+"/"+o.Name]; err != nil && o.Name != "" {
		seen.Body, seen.Err = nil, err
	}
	return seen
}

// lender hands objects over for the time of a call.
type lender struct{ buffer []byte }

func (l *lender) lend(o synchronizer.Object, to func(synchronizer.Object) error) error {
	if o.Body != nil {
		l.buffer = append(l.buffer[:0], o.Body...)
		o.Body = l.buffer
	}
	err := to(o)
	for i := range l.buffer {
		l.buffer[i] = '#'
	}
	return err
}
