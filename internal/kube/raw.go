// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"synchronizer"
)

// Raw returns the whole answer to one LIST with a query of the caller's, byte
// for byte, however large; for recording it.
func (c *Cluster) Raw(ctx context.Context, kind synchronizer.Kind, query url.Values) ([]byte, error) {
	if err := checkKind(kind); err != nil {
		return nil, err
	}
	a, err := c.get(ctx, "list", path(kind, ""), query, c.options.ReadSilence)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	raw, err := io.ReadAll(a)
	if err != nil {
		return nil, fmt.Errorf("reading list: %w", err)
	}
	return raw, nil
}
