// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"synchronizer"
)

// Get implements synchronizer.Cluster.
func (c *Cluster) Get(ctx context.Context, kind synchronizer.Kind, namespace, name string) (synchronizer.Object, error) {
	o, err := c.getObject(ctx, kind, namespace, name)
	if err != nil {
		return synchronizer.Object{}, fmt.Errorf("getting %v %s/%s: %w", kind, namespace, name, err)
	}
	return o, nil
}

func (c *Cluster) getObject(ctx context.Context, kind synchronizer.Kind, namespace, name string) (synchronizer.Object, error) {
	if err := checkKind(kind); err != nil {
		return synchronizer.Object{}, err
	}
	if !isSegment(name) || namespace != "" && !isSegment(namespace) {
		return synchronizer.Object{}, fmt.Errorf("%w: no object can have this name", synchronizer.ErrNotFound)
	}
	a, err := c.get(ctx, "get", path(kind, namespace)+"/"+name, nil, c.options.ReadSilence)
	if err != nil {
		// A 404 about the object names it; one about the kind does not.
		var said *statusError
		if errors.As(err, &said) && said.status.Code == http.StatusNotFound && said.status.Details.Name == name {
			return synchronizer.Object{}, fmt.Errorf("%w: %q", synchronizer.ErrNotFound, said.status.Message)
		}
		if errors.Is(err, synchronizer.ErrKindNotServed) {
			c.forget(kind)
		}
		return synchronizer.Object{}, err
	}
	defer a.Close()
	raw, err := readBody(a, c.options.ItemBytes)
	if err != nil {
		return synchronizer.Object{}, err
	}
	o, err := c.itemReader(ctx, kind, "").object(raw)
	if err == nil {
		err = o.Err
	}
	return o, err
}

// readBody reads one document of at most limit bytes, without the line break
// that the API server puts behind it.
func readBody(a *answer, limit int) ([]byte, error) {
	if a.length > int64(limit) {
		return nil, fmt.Errorf("%w: object has %d bytes", synchronizer.ErrTooLarge, a.length)
	}
	var raw bytes.Buffer
	raw.Grow(int(max(a.length, 0)) + bytes.MinRead)
	if _, err := raw.ReadFrom(io.LimitReader(a, int64(limit)+1)); err != nil {
		return nil, fmt.Errorf("reading object: %w", err)
	}
	if raw.Len() > limit {
		return nil, fmt.Errorf("%w: object has more than %d bytes", synchronizer.ErrTooLarge, limit)
	}
	return bytes.TrimRight(raw.Bytes(), "\n"), nil
}
