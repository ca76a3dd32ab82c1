// SPDX-License-Identifier: Apache-2.0

package storageapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// watcher is one watch. Its goroutine owns it.
type watcher struct {
	server    *Server
	kind      *kind
	selected  selection
	bookmarks bool

	since      uint64 // version at its beginning
	cursor     uint64 // version up to which it has been told
	bookmarked int    // kind.bookmarks that it has seen
	marked     time.Time
}

// line is an event as it goes over the wire.
type line struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, request Request) {
	query := request.Query
	if query.Has("sendInitialEvents") {
		answerError(w, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
		}))
		return
	}
	selected, err := readSelection(request)
	if err != nil {
		answerError(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	version := query.Get("resourceVersion")
	from, err := strconv.ParseUint(version, 10, 64)
	if version != "" && err != nil {
		answerError(w, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q", version)))
		return
	}
	ctx := r.Context()
	if seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")); seconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	bookmarks, _ := strconv.ParseBool(query.Get("allowWatchBookmarks"))
	watch := &watcher{server: s, kind: s.kinds[request.Resource], selected: selected, bookmarks: bookmarks}
	defer watch.end()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	encoder, flush := json.NewEncoder(w), http.NewResponseController(w).Flush
	lines, more := watch.begin(from)
	for {
		for _, l := range lines {
			if encoder.Encode(l) != nil {
				return
			}
		}
		if flush() != nil || !more {
			return
		}
		changed, tick, stop := watch.wait()
		select {
		case <-changed:
		case <-tick:
		case <-ctx.Done():
			stop()
			return
		case <-s.done:
			stop()
			return
		}
		stop()
		lines, more = watch.next()
	}
}

// begin returns the first events; false means that they are all.
func (w *watcher) begin(from uint64) ([]line, bool) {
	s, k := w.server, w.kind
	s.mu.Lock()
	defer s.mu.Unlock()
	k.watching++
	w.since, w.cursor, w.bookmarked, w.marked = s.version, s.version, k.bookmarks, time.Now()
	switch {
	case k.behaviour.Watch == Idle || from > 0 && k.behaviour.Forgetful:
	case from > 0 && from < k.forgotten:
		return []line{{"ERROR", expired(from, k.forgotten)}}, false
	case from > 0:
		w.cursor = from
		return w.news(), true
	case k.behaviour.Initial && k.behaviour.Watch == Events:
		var lines []line
		for _, key := range slices.Sorted(maps.Keys(k.objects)) {
			if o := k.objects[key]; w.selected.has(o) {
				lines = append(lines, line{"ADDED", o.encode(!k.behaviour.Full, true)})
			}
		}
		return lines, true
	}
	return nil, true
}

func (w *watcher) end() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.kind.watching--
}

// wait returns what to wait for; stop must be called afterwards.
func (w *watcher) wait() (changed <-chan struct{}, tick <-chan time.Time, stop func()) {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.changed
	if w.behind() {
		now := make(chan struct{})
		close(now)
		changed = now
	}
	every := w.kind.behaviour.BookmarkEvery
	if every <= 0 || !w.bookmarks {
		return changed, nil, func() {}
	}
	timer := time.NewTimer(time.Until(w.marked.Add(every)))
	return changed, timer.C, func() { timer.Stop() }
}

// behind tells whether something happened since the last look.
func (w *watcher) behind() bool {
	history := w.kind.history
	return w.server.down || w.bookmarked != w.kind.bookmarks ||
		len(history) > 0 && history[len(history)-1].version > w.cursor
}

// next returns what happened since the last call.
func (w *watcher) next() ([]line, bool) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	return w.news(), !w.server.down
}

// news does the same for a caller that holds mu.
func (w *watcher) news() []line {
	k := w.kind
	var lines []line
	start, _ := slices.BinarySearchFunc(k.history, w.cursor+1, func(c change, version uint64) int {
		return int(int64(c.version) - int64(version))
	})
	for _, c := range k.history[start:] {
		w.cursor = c.version
		mode := c.mode
		if c.version <= w.since {
			mode = k.behaviour.Watch // the past is told as the present is
		}
		switch l, ok := w.line(c); {
		case ok && mode == Events:
			lines = append(lines, l)
		case ok && mode == BookmarksOnly && w.bookmarks:
			lines = append(lines, w.bookmark(c.version))
		}
	}
	due := k.behaviour.BookmarkEvery > 0 && time.Since(w.marked) >= k.behaviour.BookmarkEvery
	if idle := k.behaviour.Watch == Idle; (w.bookmarked != k.bookmarks || due && !idle) && w.bookmarks {
		lines = append(lines, w.bookmark(w.server.version))
		w.cursor = max(w.cursor, w.server.version)
	}
	w.bookmarked = k.bookmarks
	if due {
		w.marked = time.Now()
	}
	return lines
}

func (w *watcher) bookmark(version uint64) line {
	return line{"BOOKMARK", map[string]any{
		"kind": w.kind.objectKind, "apiVersion": groupVersion,
		"metadata": map[string]any{"resourceVersion": strconv.FormatUint(version, 10), "creationTimestamp": nil},
		"spec":     map[string]any{},
	}}
}

// line returns what the selection sees of a change.
func (w *watcher) line(c change) (line, bool) {
	hollow := !w.kind.behaviour.Full
	before, after := w.selected.has(c.old), w.selected.has(c.now)
	switch {
	case !before && after:
		return line{"ADDED", c.now.encode(hollow, true)}, true
	case before && after:
		return line{"MODIFIED", c.now.encode(hollow, true)}, true
	case before && c.gone != nil:
		return line{"DELETED", c.gone.encode(hollow, true)}, true
	case before: // no longer selected: the old state at the new version
		return line{"DELETED", c.old.at(c.version).encode(hollow, true)}, true
	}
	return line{}, false
}

func expired(from, oldest uint64) metav1.Status {
	status := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, oldest)).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return status
}
