// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"synchronizer"
	"synchronizer/internal/kube"
	"synchronizer/internal/rawjson"
)

// recordPage is the number of items of a recorded page.
const recordPage = "500"

// Record writes all objects of a kind to dir, page by page, byte for byte as
// the API server answers them. Load reads them back.
func Record(ctx context.Context, config *rest.Config, kind synchronizer.Kind, dir string) error {
	cluster, err := kube.New(kube.Options{Config: config})
	if err != nil {
		return err
	}
	defer cluster.Close()
	described, err := cluster.Describe(ctx, kind)
	if err != nil {
		return fmt.Errorf("recording %v: %w", kind, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("recording %v: %w", kind, err)
	}
	in := info{
		Group: kind.Group, Version: kind.Version, Resource: kind.Resource,
		ObjectKind: described.ObjectKind, Namespaced: described.Namespaced,
	}
	for next := ""; ; in.Pages++ {
		page, err := cluster.Raw(ctx, kind, url.Values{"limit": {recordPage}, "continue": {next}})
		if err != nil {
			return fmt.Errorf("recording %v: %w", kind, err)
		}
		if err := writeGzip(filepath.Join(dir, fmt.Sprintf(pageName, in.Pages)), page); err != nil {
			return fmt.Errorf("recording %v: %w", kind, err)
		}
		token, err := rawjson.Get(page, "metadata", "continue")
		if err != nil {
			return fmt.Errorf("recording %v: reading page: %w", kind, err)
		}
		if next = rawjson.Text(token).String(); next == "" {
			in.Pages++
			break
		}
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("recording %v: %w", kind, err)
	}
	if err := os.WriteFile(filepath.Join(dir, infoName), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("recording %v: %w", kind, err)
	}
	return nil
}
