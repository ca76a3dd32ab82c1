// SPDX-License-Identifier: Apache-2.0

package kubefake

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"synchronizer"
)

// Verb is one of the ways to read.
type Verb uint8

// The verbs.
const (
	VerbList Verb = iota + 1
	VerbWatch
	VerbGet
)

// Cluster implements synchronizer.Cluster. All methods may be called at the
// same time.
type Cluster struct {
	mu        sync.Mutex
	version   int64 // resourceVersion of the last write
	compacted int64 // watches from an older resourceVersion get ErrGone
	kinds     map[synchronizer.Kind]*kindState
	changed   chan struct{} // closed and replaced whenever a watch has something to look at
}

var _ synchronizer.Cluster = (*Cluster)(nil)

type kindState struct {
	served  bool
	hollow  bool
	objects map[string]*object // by namespace/name
	log     []event

	fail      map[Verb]error
	failOnce  map[Verb][]error
	listFail  *listFailure
	itemErr   map[string]error
	hold      map[Verb]chan struct{} // closed by release
	waiting   map[Verb]int           // requests that are held
	count     map[Verb]int
	watching  int
	breaks    int // counts what ended watches
	breakWith error
	onGet     func(namespace, name string)
}

type object struct {
	synchronizer.Object
	hollow []byte // Body without anything but type and metadata
}

type event struct {
	version int64
	typ     synchronizer.WatchEventType
	object  *object
}

type listFailure struct {
	after int
	err   error
}

// New returns a cluster that serves no kind.
func New() *Cluster {
	return &Cluster{version: 1, kinds: map[synchronizer.Kind]*kindState{}, changed: make(chan struct{})}
}

// kind returns the state of a kind; c.mu is held.
func (c *Cluster) kind(kind synchronizer.Kind) *kindState {
	k := c.kinds[kind]
	if k == nil {
		k = &kindState{
			objects: map[string]*object{}, fail: map[Verb]error{}, failOnce: map[Verb][]error{},
			itemErr: map[string]error{}, hold: map[Verb]chan struct{}{}, waiting: map[Verb]int{}, count: map[Verb]int{},
		}
		c.kinds[kind] = k
	}
	return k
}

// wake lets all watches look again; c.mu is held.
func (c *Cluster) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Serve makes kinds known that have no objects yet. Put does it by itself.
func (c *Cluster) Serve(kinds ...synchronizer.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range kinds {
		c.kind(kind).served = true
	}
}

// Unserve removes a kind with all its objects, as the deletion of its CRD does:
// DELETED events, then the watches end, then every request gets ErrKindNotServed.
func (c *Cluster) Unserve(kind synchronizer.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kind(kind)
	for _, key := range sortedKeys(k.objects) {
		c.remove(k, key)
	}
	k.served = false
	k.breaks++
	k.breakWith = nil
	c.wake()
}

// Put creates or replaces an object and returns its resourceVersion, which it
// writes into the document, with a uid if there is none. A document that is
// not an object with a name is a fault of the test and panics.
func (c *Cluster) Put(kind synchronizer.Kind, doc []byte) string {
	return c.put(kind, doc, true)
}

// PutSilently is Put without an event: an object that appears in no watch.
func (c *Cluster) PutSilently(kind synchronizer.Kind, doc []byte) string {
	return c.put(kind, doc, false)
}

func (c *Cluster) put(kind synchronizer.Kind, doc []byte, announce bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kind(kind)
	k.served = true
	o, err := newObject(kind, doc, c.version+1, k.objects)
	if err != nil {
		panic(fmt.Sprintf("kubefake: putting %v: %v", kind, err))
	}
	c.version++
	key := o.Namespace + "/" + o.Name
	typ := synchronizer.WatchModified
	if k.objects[key] == nil {
		typ = synchronizer.WatchAdded
	}
	k.objects[key] = o
	if announce {
		k.log = append(k.log, event{c.version, typ, o})
		c.wake()
	}
	return o.ResourceVersion
}

// Delete removes an object and returns the resourceVersion of its deletion, ""
// if there is no such object.
func (c *Cluster) Delete(kind synchronizer.Kind, namespace, name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, key := c.kind(kind), namespace+"/"+name
	if k.objects[key] == nil {
		return ""
	}
	c.remove(k, key)
	c.wake()
	return strconv.FormatInt(c.version, 10)
}

// DeleteSilently is Delete without an event: an object that vanishes.
func (c *Cluster) DeleteSilently(kind synchronizer.Kind, namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	delete(c.kind(kind).objects, namespace+"/"+name)
}

// remove deletes with an event, which carries the last state under the
// resourceVersion of the deletion, as the API server's does; c.mu is held.
func (c *Cluster) remove(k *kindState, key string) {
	last := k.objects[key]
	c.version++
	gone := &object{Object: last.Object}
	gone.Body = setVersion(last.Body, c.version)
	gone.hollow = setVersion(last.hollow, c.version)
	gone.ResourceVersion = strconv.FormatInt(c.version, 10)
	delete(k.objects, key)
	k.log = append(k.log, event{c.version, synchronizer.WatchDeleted, gone})
}

// ResourceVersion is that of the last write.
func (c *Cluster) ResourceVersion() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strconv.FormatInt(c.version, 10)
}

// Objects returns what exists of a kind, in the order of List. The bodies are
// the caller's.
func (c *Cluster) Objects(kind synchronizer.Kind) []synchronizer.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kind(kind)
	var objects []synchronizer.Object
	for _, key := range sortedKeys(k.objects) {
		o := k.objects[key].Object
		o.Body = slices.Clone(o.Body)
		objects = append(objects, o)
	}
	return objects
}

// sortedKeys gives the order of the API server's storage keys.
func sortedKeys(objects map[string]*object) []string {
	keys := make([]string, 0, len(objects))
	for key := range objects {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, strings.Compare)
	return keys
}

// ErrBroken is what a watch ends with after BreakWatches.
var ErrBroken = errors.New("watch was cut by the test")
