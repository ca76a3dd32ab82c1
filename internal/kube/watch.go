// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"synchronizer"
)

// watchBuffer is small since there is one for every kind.
const watchBuffer = 4 << 10

// Watch implements synchronizer.Cluster. The API server is asked to end it after
// WatchTime or up to twice that, at random, so that watches spread over its replicas.
func (c *Cluster) Watch(ctx context.Context, kind synchronizer.Kind, resourceVersion string, each func(synchronizer.WatchEvent) error) error {
	return c.selectedWatch(ctx, kind, Selection{}, resourceVersion, each)
}

func (c *Cluster) selectedWatch(ctx context.Context, kind synchronizer.Kind, selection Selection, resourceVersion string, each func(synchronizer.WatchEvent) error) error {
	err := c.watch(ctx, kind, selection, resourceVersion, each)
	var own *callbackError
	if errors.As(err, &own) {
		return own.err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, synchronizer.ErrKindNotServed) {
		c.forget(kind)
	}
	reason := watchEnd(err)
	c.metrics.watchEnds.WithLabelValues(reason).Inc()
	c.log.Debug("watch ended", "kind", kind.String(), "reason", reason)
	if err != nil {
		return fmt.Errorf("watching %v: %w", kind, err)
	}
	return nil
}

func (c *Cluster) watch(ctx context.Context, kind synchronizer.Kind, selection Selection, resourceVersion string, each func(synchronizer.WatchEvent) error) error {
	if err := checkKind(kind); err != nil {
		return err
	}
	if err := selection.check(); err != nil {
		return err
	}
	seconds := int(c.options.WatchTime / time.Second)
	query := selection.apply(url.Values{
		"watch":               {"true"},
		"allowWatchBookmarks": {"true"},
		"timeoutSeconds":      {strconv.Itoa(seconds + rand.IntN(seconds+1))},
	})
	if resourceVersion != "" {
		query.Set("resourceVersion", resourceVersion)
	}
	a, err := c.get(ctx, "watch", path(kind, selection.Namespace), query, c.options.WatchSilence)
	if errors.Is(err, errSilent) {
		return errUnanswered
	}
	if err != nil {
		return err
	}
	defer a.Close()
	s, items := newScanner(a, watchBuffer), c.itemReader(ctx, kind, selection.ObjectKind)
	unknown := c.unknownEvents(kind)
	for {
		err := readFrame(s, items, unknown, func(e synchronizer.WatchEvent) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return each(e)
		})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		items.shrink()
	}
}

// shrink gives back the memory of an object that was much larger than usual.
func (r *itemReader) shrink() {
	if cap(r.buffer) > 16*watchBuffer {
		r.buffer = nil
	}
}
