// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"synchronizer"
)

// SelectNamespaces is Select for several namespaces (s.Namespace does not
// count): each is listed and watched by itself, so that rights in these
// namespaces are enough. It must be used for one kind only, by one list or
// watch at a time: a watch goes on where the list or watch before it ended, and
// the resourceVersion that it is given only has to be the last one that was
// handed out; any other one is ErrGone.
func (c *Cluster) SelectNamespaces(s Selection, namespaces ...string) synchronizer.Cluster {
	if len(namespaces) == 1 {
		s.Namespace = namespaces[0]
		return c.Select(s)
	}
	v := &namespacesView{cluster: c, at: map[string]string{}}
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		s.Namespace = namespace
		v.parts = append(v.parts, s)
	}
	return v
}

type namespacesView struct {
	cluster *Cluster
	parts   []Selection

	mu   sync.Mutex
	at   map[string]string // resourceVersion to watch each namespace from
	last string            // that was handed out
}

var _ synchronizer.Cluster = (*namespacesView)(nil)

// List implements synchronizer.Cluster.
func (v *namespacesView) List(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	last, at := "", map[string]string{}
	for _, s := range v.parts {
		version, err := v.cluster.selectedList(ctx, kind, s, each)
		if err != nil {
			return "", fmt.Errorf("namespace %s: %w", s.Namespace, err)
		}
		last, at[s.Namespace] = version, version
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last, v.at = last, at
	return last, nil
}

// Watch implements synchronizer.Cluster. It ends when one of the namespaces'
// watches does; the events of one object are in order.
func (v *namespacesView) Watch(ctx context.Context, kind synchronizer.Kind, resourceVersion string, each func(synchronizer.WatchEvent) error) error {
	v.mu.Lock()
	known := v.last != "" && resourceVersion == v.last
	v.mu.Unlock()
	if !known {
		return fmt.Errorf("watching %v: %w: not the last resourceVersion of these namespaces", kind, synchronizer.ErrGone)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range v.parts {
		v.mu.Lock()
		from := v.at[s.Namespace]
		v.mu.Unlock()
		g.Go(func() error {
			err := v.cluster.selectedWatch(ctx, kind, s, from, func(e synchronizer.WatchEvent) error {
				v.mu.Lock()
				defer v.mu.Unlock()
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := each(e); err != nil {
					return err
				}
				if version := e.Object.ResourceVersion; version != "" {
					v.at[s.Namespace], v.last = version, version
				}
				return nil
			})
			if err == nil {
				err = errEnded
			}
			return err
		})
	}
	if err := g.Wait(); err != nil && !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// errEnded lets the watches of the other namespaces end with one that did.
var errEnded = errors.New("the watch of a namespace has ended")

// Get implements synchronizer.Cluster.
func (v *namespacesView) Get(ctx context.Context, kind synchronizer.Kind, namespace, name string) (synchronizer.Object, error) {
	if !slices.ContainsFunc(v.parts, func(s Selection) bool { return s.Namespace == namespace }) {
		return synchronizer.Object{}, fmt.Errorf("getting %v %s/%s: %w: its namespace is not read", kind, namespace, name, synchronizer.ErrNotFound)
	}
	return v.cluster.Get(ctx, kind, namespace, name)
}
