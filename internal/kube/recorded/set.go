// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// Set is what an API server has of one kind. Its items are as they stand in a
// LIST: built-in kinds without kind and apiVersion.
type Set struct {
	Kind       synchronizer.Kind
	ObjectKind string // "Deployment"
	Namespaced bool
	// ItemsFirst tells that a LIST has its items in front of kind and metadata, as
	// those of custom resources do.
	ItemsFirst      bool
	ResourceVersion string
	Items           [][]byte
}

const (
	pageName = "page-%05d.json.gz"
	infoName = "info.json"
)

// info is the file beside the pages.
type info struct {
	Group, Version, Resource, ObjectKind string
	Namespaced                           bool
	Pages                                int
}

// Load reads what Record has written to dir.
func Load(dir string) (*Set, error) {
	raw, err := os.ReadFile(filepath.Join(dir, infoName))
	if err != nil {
		return nil, fmt.Errorf("reading recording: %w", err)
	}
	var in info
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("reading recording: %s: %w", infoName, err)
	}
	set := &Set{
		Kind:       synchronizer.Kind{Group: in.Group, Version: in.Version, Resource: in.Resource},
		ObjectKind: in.ObjectKind, Namespaced: in.Namespaced,
	}
	for i := range in.Pages {
		name := fmt.Sprintf(pageName, i)
		page, err := readGzip(filepath.Join(dir, name))
		if err == nil {
			err = set.addPage(page)
		}
		if err != nil {
			return nil, fmt.Errorf("reading recording: %s: %w", name, err)
		}
	}
	return set, nil
}

func (s *Set) addPage(page []byte) error {
	items, err := rawjson.Get(page, "items")
	if err != nil {
		return err
	}
	version, err := rawjson.Get(page, "metadata", "resourceVersion")
	if err != nil {
		return err
	}
	if s.ResourceVersion = rawjson.Text(version).String(); s.ResourceVersion == "" {
		return errors.New("list has no resourceVersion")
	}
	s.ItemsFirst = bytes.Index(page, []byte(`"items"`)) < bytes.Index(page, []byte(`"kind"`))
	if rawjson.TypeOf(items) != rawjson.Array {
		return nil // null: no items
	}
	return rawjson.Elements(items, func(item []byte) error {
		s.Items = append(s.Items, slices.Clip(item))
		return nil
	})
}

// readGzip reads one file; a recording comes from the person who runs the
// benchmark, so only an absurd size is refused.
func readGzip(path string) ([]byte, error) {
	const limit = 1 << 30
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(unpacked, limit+1))
	if err == nil && len(raw) > limit {
		err = errors.New("file is too large")
	}
	return raw, err
}

func writeGzip(path string, raw []byte) error {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(raw); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, packed.Bytes(), 0o644)
}
