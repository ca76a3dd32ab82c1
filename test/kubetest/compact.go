// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Compact makes etcd forget all history before its present revision. The API
// server's watch cache may still answer watches from its own memory; after
// Restart an older resourceVersion gets 410 Gone.
func (c *Cluster) Compact(ctx context.Context) error {
	var now struct{ Header struct{ Revision string } }
	if err := c.etcd(ctx, "/v3/kv/range", map[string]any{"key": "AA==", "limit": 1}, &now); err != nil {
		return fmt.Errorf("reading etcd's revision: %w", err)
	}
	request := map[string]any{"revision": now.Header.Revision, "physical": true}
	if err := c.etcd(ctx, "/v3/kv/compaction", request, nil); err != nil {
		return fmt.Errorf("compacting etcd: %w", err)
	}
	return nil
}

// etcd calls the JSON form of etcd's API.
func (c *Cluster) etcd(ctx context.Context, path string, body, result any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.EtcdEndpoint()+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer, result)
}
