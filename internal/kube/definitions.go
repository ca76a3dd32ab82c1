// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strconv"

	"synchronizer"
	"synchronizer/internal/catalog"
)

// The two kinds of objects by which kinds come and go.
var (
	CRDs        = synchronizer.Kind{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	APIServices = synchronizer.Kind{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// Bodies of custom resource definitions are large (hundreds of KiB are common),
// so only their metadata are asked for.
const (
	metadataList  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	metadataEvent = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

type partialMetadata struct {
	Metadata struct {
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
		Generation      int64  `json:"generation"`
	} `json:"metadata"`
}

func (m *partialMetadata) definition(change catalog.Change) catalog.Definition {
	return catalog.Definition{Change: change, Name: m.Metadata.Name, UID: m.Metadata.UID, Generation: m.Metadata.Generation}
}

// WatchDefinitions lists CRDs or APIServices and then tells each what happens to
// them, until ctx ends or the watch cannot go on: ErrForbidden without the right
// to, ErrGone when it has to begin again. The list ends with a
// catalog.Definition whose Change is Listed and which has no name.
func (c *Cluster) WatchDefinitions(ctx context.Context, kind synchronizer.Kind, each func(catalog.Definition)) error {
	version, err := c.listDefinitions(ctx, kind, each)
	for err == nil {
		each(catalog.Definition{Change: catalog.Listed})
		for err == nil {
			version, err = c.watchDefinitions(ctx, kind, version, each)
		}
	}
	return fmt.Errorf("watching %v: %w", kind, err)
}

func (c *Cluster) listDefinitions(ctx context.Context, kind synchronizer.Kind, each func(catalog.Definition)) (version string, err error) {
	for next := ""; ; {
		query := url.Values{"limit": {strconv.Itoa(c.options.PageSize)}}
		if next != "" {
			query.Set("continue", next)
		}
		a, err := c.getAs(ctx, metadataList, "list", path(kind, ""), query, c.options.ReadSilence)
		if err != nil {
			return "", err
		}
		var list struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
				Continue        string `json:"continue"`
			} `json:"metadata"`
			Items []partialMetadata `json:"items"`
		}
		err = json.NewDecoder(io.LimitReader(a, discoveryLimit)).Decode(&list)
		a.Close()
		if err != nil {
			return "", fmt.Errorf("reading list: %w", err)
		}
		for i := range list.Items {
			each(list.Items[i].definition(catalog.Listed))
		}
		if version == "" {
			version = list.Metadata.ResourceVersion
		}
		if next = list.Metadata.Continue; next == "" {
			return version, nil
		}
	}
}

// watchDefinitions runs one watch and returns where the next one goes on.
func (c *Cluster) watchDefinitions(ctx context.Context, kind synchronizer.Kind, version string, each func(catalog.Definition)) (string, error) {
	query := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(300 + rand.IntN(301))},
	}
	a, err := c.getAs(ctx, metadataEvent, "watch", path(kind, ""), query, c.options.WatchSilence)
	if err != nil {
		return "", err
	}
	defer a.Close()
	for decoder := json.NewDecoder(a); ; {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return version, nil
		} else if err != nil {
			return "", fmt.Errorf("reading event: %w", err)
		}
		var object partialMetadata
		if event.Type == "ERROR" {
			return "", readStatus(event.Object).err(nil)
		}
		if err := json.Unmarshal(event.Object, &object); err != nil {
			return "", fmt.Errorf("reading event: %w", err)
		}
		version = object.Metadata.ResourceVersion
		switch event.Type {
		case "ADDED":
			each(object.definition(catalog.Added))
		case "MODIFIED":
			each(object.definition(catalog.Modified))
		case "DELETED":
			each(object.definition(catalog.Deleted))
		}
	}
}

// CRD gives the uid of a custom resource definition ("widgets.example.org");
// ErrNotFound if there is none.
func (c *Cluster) CRD(ctx context.Context, name string) (uid string, err error) {
	if !isSegment(name) {
		return "", fmt.Errorf("%w: no custom resource definition can be called %q", synchronizer.ErrNotFound, name)
	}
	a, err := c.getAs(ctx, metadataEvent, "get", path(CRDs, "")+"/"+name, nil, c.options.ReadSilence)
	if err != nil {
		// A 404 about the object names it; one about the kind does not.
		var said *statusError
		if errors.As(err, &said) && said.status.Details.Name == name && errors.Is(err, synchronizer.ErrKindNotServed) {
			err = fmt.Errorf("%w: %s", synchronizer.ErrNotFound, said.status.Message)
		}
		return "", fmt.Errorf("getting custom resource definition %s: %w", name, err)
	}
	defer a.Close()
	var object partialMetadata
	if err := json.NewDecoder(io.LimitReader(a, discoveryLimit)).Decode(&object); err != nil {
		return "", fmt.Errorf("reading custom resource definition %s: %w", name, err)
	}
	return object.Metadata.UID, nil
}
