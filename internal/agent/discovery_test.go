// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"synchronizer"
	"synchronizer/internal/catalog"
	"synchronizer/internal/kube/kubefake"
)

// fakeDiscovery is what a cluster in memory says of its kinds. It serves a kind
// a moment after its definition was made, as an API server does.
type fakeDiscovery struct {
	cluster *kubefake.Cluster
	lag     time.Duration

	mu      sync.Mutex
	fail    error // of everything but the definitions
	deny    error // of the watches of definitions
	crdErr  error
	kinds   map[synchronizer.Kind]bool
	unknown map[synchronizer.Kind]bool // versions, without a resource, of an API server that is down
	crds    map[string]string
	changed chan struct{}
	log     []catalog.Definition
	asked   map[string]int
	made    int
}

func newFakeDiscovery(cluster *kubefake.Cluster, kinds ...synchronizer.Kind) *fakeDiscovery {
	d := &fakeDiscovery{
		cluster: cluster, kinds: map[synchronizer.Kind]bool{}, unknown: map[synchronizer.Kind]bool{},
		crds: map[string]string{}, asked: map[string]int{}, changed: make(chan struct{}),
	}
	for _, k := range kinds {
		d.kinds[k] = true
	}
	cluster.Serve(kinds...)
	return d
}

func (d *fakeDiscovery) do(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
	close(d.changed)
	d.changed = make(chan struct{})
}

// define makes a custom resource definition.
func (d *fakeDiscovery) define(kind synchronizer.Kind) {
	d.do(func() {
		d.made++
		name := definitionOf(kind)
		d.crds[name] = fmt.Sprint("uid-", d.made)
		d.log = append(d.log, catalog.Definition{Change: catalog.Added, Name: name, UID: d.crds[name], Generation: 1})
	})
	time.Sleep(d.lag) // of the bubble
	d.serve(kind)
}

// undefine deletes one, without a word of its objects: an API server tells their
// deletion before, but the watch may have broken.
func (d *fakeDiscovery) undefine(kind synchronizer.Kind) {
	d.vanish(kind)
	for _, o := range d.cluster.Objects(kind) {
		d.cluster.DeleteSilently(kind, o.Namespace, o.Name)
	}
	d.do(func() {
		name := definitionOf(kind)
		d.log = append(d.log, catalog.Definition{Change: catalog.Deleted, Name: name, UID: d.crds[name]})
		delete(d.crds, name)
		delete(d.kinds, kind)
	})
}

// vanish makes requests for a kind fail; its objects may come back.
func (d *fakeDiscovery) vanish(kind synchronizer.Kind) {
	d.failAll(kind, synchronizer.ErrKindNotServed)
}

func (d *fakeDiscovery) failAll(kind synchronizer.Kind, err error) {
	d.cluster.FailList(kind, err)
	d.cluster.FailWatch(kind, err)
	d.cluster.FailGet(kind, err)
	d.cluster.EndWatches(kind)
}

func (d *fakeDiscovery) serve(kind synchronizer.Kind) {
	d.failAll(kind, nil)
	d.cluster.Serve(kind)
	d.do(func() { d.kinds[kind] = true })
}

func (d *fakeDiscovery) unserve(kind synchronizer.Kind) {
	d.vanish(kind)
	d.do(func() { delete(d.kinds, kind) })
}

func (d *fakeDiscovery) count(what string) error {
	d.asked[what]++
	return d.fail
}

func (d *fakeDiscovery) requests() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, times := range d.asked {
		n += times
	}
	return n
}

func (d *fakeDiscovery) times(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[what]
}

func (d *fakeDiscovery) Groups(context.Context) ([]catalog.Group, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.count("groups"); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for k := range d.kinds {
		names[k.Group] = true
	}
	for k := range d.unknown {
		names[k.Group] = true
	}
	var all []catalog.Group
	for name := range names {
		all = append(all, d.group(name))
	}
	return all, nil
}

func (d *fakeDiscovery) Group(_ context.Context, name string) (catalog.Group, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.group(name), d.count("group")
}

func (d *fakeDiscovery) group(name string) catalog.Group {
	versions := map[string]*catalog.Version{}
	for k := range d.kinds {
		if k.Group == name {
			if versions[k.Version] == nil {
				versions[k.Version] = &catalog.Version{Name: k.Version}
			}
			versions[k.Version].Resources = append(versions[k.Version].Resources, catalog.Resource{Name: k.Resource, Watchable: true})
		}
	}
	for k := range d.unknown {
		if k.Group == name {
			versions[k.Version] = &catalog.Version{Name: k.Version, Unknown: true}
		}
	}
	g := catalog.Group{Name: name}
	for _, v := range versions {
		slices.SortFunc(v.Resources, func(x, y catalog.Resource) int { return min(1, max(-1, len(x.Name)-len(y.Name))) })
		g.Versions = append(g.Versions, *v)
	}
	slices.SortFunc(g.Versions, func(x, y catalog.Version) int { return min(1, max(-1, len(x.Name)-len(y.Name))) })
	return g
}

func (d *fakeDiscovery) CRD(_ context.Context, name string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked["crd"]++
	switch uid, ok := d.crds[name]; {
	case d.crdErr != nil:
		return "", d.crdErr
	case !ok:
		return "", synchronizer.ErrNotFound
	default:
		return uid, nil
	}
}

func (d *fakeDiscovery) WatchDefinitions(ctx context.Context, kind synchronizer.Kind, each func(catalog.Definition)) error {
	d.mu.Lock()
	d.asked["definitions"]++
	deny, at := d.deny, len(d.log)
	var listed []catalog.Definition
	if kind == crds {
		for name, uid := range d.crds {
			listed = append(listed, catalog.Definition{Change: catalog.Listed, Name: name, UID: uid, Generation: 1})
		}
	}
	d.mu.Unlock()
	if deny != nil {
		return deny
	}
	for _, one := range listed {
		each(one)
	}
	each(catalog.Definition{Change: catalog.Listed})
	for {
		d.mu.Lock()
		news, changed := slices.Clone(d.log[at:]), d.changed
		at = len(d.log)
		d.mu.Unlock()
		if kind == crds {
			for _, one := range news {
				each(one)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
