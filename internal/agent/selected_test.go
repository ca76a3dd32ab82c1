// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"sync"

	"synchronizer"
	"synchronizer/internal/kube/kubefake"
)

// selected shows objects whose value is not 0, as an API server does through a
// selector: one that stops to match is deleted for the watch.
type selected struct {
	*kubefake.Cluster

	mu   sync.Mutex
	seen map[string]bool // as of the last event that was handed over
}

func isSelected(body []byte) bool { return !bytes.Contains(body, []byte(`"value":"0"`)) }

func (s *selected) List(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	seen := map[string]bool{}
	version, err := s.Cluster.List(ctx, kind, func(o synchronizer.Object) error {
		if o.Err == nil && !isSelected(o.Body) {
			return nil
		}
		seen[o.Namespace+"/"+o.Name] = true
		return each(o)
	})
	if err == nil {
		s.mu.Lock()
		s.seen = seen
		s.mu.Unlock()
	}
	return version, err
}

func (s *selected) Watch(ctx context.Context, kind synchronizer.Kind, from string, each func(synchronizer.WatchEvent) error) error {
	return s.Cluster.Watch(ctx, kind, from, func(e synchronizer.WatchEvent) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		name := e.Object.Namespace + "/" + e.Object.Name
		matches := e.Type != synchronizer.WatchDeleted && isSelected(e.Object.Body)
		switch {
		case e.Type == synchronizer.WatchBookmark:
			return each(e)
		case matches && s.seen[name]:
			e.Type = synchronizer.WatchModified
		case matches:
			e.Type = synchronizer.WatchAdded
		case s.seen[name]:
			e.Type = synchronizer.WatchDeleted
		default:
			return nil
		}
		err := each(e)
		if err == nil {
			if s.seen[name] = matches; !matches {
				delete(s.seen, name)
			}
		}
		return err
	})
}
