// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"synchronizer"
)

const (
	// Above bigItem bytes in the mean the next page is half as long, so that an
	// answer stays within some megabytes; below smallItem it grows again.
	bigItem   = 16 << 10
	smallItem = 4 << 10
	minPage   = 10

	listBuffer = 32 << 10
)

// List implements synchronizer.Cluster. While each is busy nothing is read, and
// the API server ends an answer that is not taken within its request timeout
// (60 s by default): each must not block for long.
func (c *Cluster) List(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	return c.selectedList(ctx, kind, Selection{}, each)
}

func (c *Cluster) selectedList(ctx context.Context, kind synchronizer.Kind, selection Selection, each func(synchronizer.Object) error) (string, error) {
	version, pages, err := c.list(ctx, kind, selection, each)
	var own *callbackError
	switch {
	case err == nil:
		c.log.Debug("listed", "kind", kind.String(), "pages", pages, "resourceVersion", version)
		return version, nil
	case errors.As(err, &own):
		return "", own.err
	case errors.Is(err, synchronizer.ErrKindNotServed):
		c.forget(kind)
	}
	return "", fmt.Errorf("listing %v: %w", kind, err)
}

func (c *Cluster) list(ctx context.Context, kind synchronizer.Kind, selection Selection, each func(synchronizer.Object) error) (version string, pages int, err error) {
	if err := selection.check(); err != nil {
		return "", 0, err
	}
	objectKind := selection.ObjectKind
	if objectKind == "" {
		described, err := c.Describe(ctx, kind)
		if err != nil {
			return "", 0, err
		}
		objectKind = described.ObjectKind
	} else if err := checkKind(kind); err != nil {
		return "", 0, err
	}
	items := c.itemReader(ctx, kind, objectKind)
	learned := pageKey{kind, selection}
	limit := c.pageLimit(learned)
	for next := ""; ; {
		p, err := c.listPage(ctx, kind, selection, limit, next, items, each)
		if err != nil {
			return "", pages, fmt.Errorf("page %d: %w", pages+1, err)
		}
		pages++
		c.metrics.pages.Inc()
		// All pages show the state at one resourceVersion; should they ever not,
		// watching from the first one misses nothing.
		if version == "" {
			version = p.resourceVersion
		}
		limit = limit.after(p, c.options.PageSize)
		c.setPageLimit(learned, limit)
		if p.next == "" {
			return version, pages, nil
		}
		if p.next == next {
			return "", pages, errors.New("the API server gives the same continue token again")
		}
		next = p.next
	}
}

func (c *Cluster) listPage(ctx context.Context, kind synchronizer.Kind, selection Selection, limit pageLimit, next string, items *itemReader, each func(synchronizer.Object) error) (page, error) {
	query := selection.apply(url.Values{"limit": {strconv.Itoa(int(limit))}})
	if next != "" {
		query.Set("continue", next)
	}
	a, err := c.get(ctx, "list", path(kind, selection.Namespace), query, c.options.ReadSilence)
	if err != nil {
		return page{}, err
	}
	defer a.Close()
	return readPage(newScanner(a, listBuffer), items, func(o synchronizer.Object) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return each(o)
	})
}

// itemReader adds the type to the items of lists. An empty objectKind is asked
// for when the first object needs it.
func (c *Cluster) itemReader(ctx context.Context, kind synchronizer.Kind, objectKind string) *itemReader {
	return &itemReader{limit: c.options.ItemBytes, typeMeta: func() (typeMeta, error) {
		if objectKind == "" {
			described, err := c.Describe(ctx, kind)
			if err != nil {
				return typeMeta{}, err
			}
			objectKind = described.ObjectKind
		}
		return typeMeta{apiVersion: kind.GroupVersion(), kind: objectKind}, nil
	}}
}

// pageLimit is the number of items to ask for.
type pageLimit int

// after is the limit of the page behind p.
func (l pageLimit) after(p page, most int) pageLimit {
	if p.items == 0 {
		return l
	}
	switch mean := p.itemBytes / int64(p.items); {
	case mean > bigItem:
		return max(l/2, pageLimit(min(minPage, most)))
	case mean < smallItem:
		return min(2*l, pageLimit(most))
	}
	return l
}

// pageKey is what a page limit is learned for.
type pageKey struct {
	kind      synchronizer.Kind
	selection Selection
}

func (c *Cluster) pageLimit(key pageKey) pageLimit {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.pages[key]; l > 0 {
		return l
	}
	return pageLimit(c.options.PageSize)
}

func (c *Cluster) setPageLimit(key pageKey, l pageLimit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages[key] = l
}
