// SPDX-License-Identifier: Apache-2.0

package synchronizer

import "context"

// Cluster is one Kubernetes API server, as the agent reads it. It holds no
// cache: bytes pass through. The agent calls it from one goroutine per kind, so
// all methods may run at the same time.
//
// Errors wrap ErrKindNotServed, ErrForbidden, ErrNotFound, ErrGone or
// *RetryAfterError where the API server said so; every other error is worth
// another try with back-off.
type Cluster interface {
	// List reads all objects of a kind (in all namespaces), from the storage and
	// not from a watch cache of unknown age, page by page, and calls each for every
	// one of them in the API server's order. One item is in memory at a time; its
	// bytes are only valid during the call. An item whose identity can be read but
	// whose body cannot has Err set. An error of each ends the list and is
	// returned. Only a nil error means that the list is complete: absence counts
	// only then. The result is the resourceVersion to watch from.
	List(ctx context.Context, kind Kind, each func(Object) error) (resourceVersion string, err error)

	// Watch streams what happened to the kind after resourceVersion, in order,
	// until ctx ends, the API server ends the stream (nil), or an error. ErrGone
	// means that the caller must list again. A watch on which nothing was heard (no
	// event and no bookmark) for longer than the adapter's limit ends with an
	// error. An error of each ends the watch and is returned. Bytes as in List.
	Watch(ctx context.Context, kind Kind, resourceVersion string, each func(WatchEvent) error) error

	// Get reads one object; ErrNotFound if it does not exist. The caller owns the
	// body. The bytes are those that List and Watch give for the same state.
	Get(ctx context.Context, kind Kind, namespace, name string) (Object, error)
}

// WatchEventType is what happened to an object.
type WatchEventType uint8

// The types of watch events. Bookmark carries only a resourceVersion. Added is
// also sent for objects that existed before a watch without resourceVersion.
const (
	WatchAdded WatchEventType = iota + 1
	WatchModified
	WatchDeleted
	WatchBookmark
)

// WatchEvent is one event of a watch.
type WatchEvent struct {
	Type   WatchEventType
	Object Object
}
