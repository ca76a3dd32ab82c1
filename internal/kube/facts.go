// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// Facts is what a client says of its cluster in the handshake; what could not be
// found out is empty.
type Facts struct {
	GitVersion    string // of the API server
	ClusterUID    string // of namespace kube-system
	CloudProvider string // of a node's providerID: "aws" of "aws:///zone/id"
	ResourceGroup string // Azure: of a node's providerID
}

// factTimeout bounds each fact, so that a cluster without rights for it does
// not delay the start.
const factTimeout = 5 * time.Second

// versionLimit bounds the answer of /version.
const versionLimit = 64 << 10

var (
	namespaces = synchronizer.Kind{Version: "v1", Resource: "namespaces"}
	nodes      = synchronizer.Kind{Version: "v1", Resource: "nodes"}
	errEnough  = errors.New("one is enough")
)

// Facts asks the API server; it never fails.
func (c *Cluster) Facts(ctx context.Context) Facts {
	var f Facts
	within := func(ask func(context.Context)) {
		ctx, cancel := context.WithTimeout(ctx, factTimeout)
		defer cancel()
		ask(ctx)
	}
	within(func(ctx context.Context) { f.GitVersion = c.gitVersion(ctx) })
	within(func(ctx context.Context) {
		if o, err := c.Get(ctx, namespaces, "", "kube-system"); err == nil {
			f.ClusterUID = o.UID
		}
	})
	within(func(ctx context.Context) {
		_, _ = c.List(ctx, nodes, func(o synchronizer.Object) error {
			if raw, err := rawjson.Get(o.Body, "spec", "providerID"); err == nil && raw != nil {
				f.CloudProvider, f.ResourceGroup = provider(rawjson.Text(raw).String())
			}
			return errEnough
		})
	})
	return f
}

func (c *Cluster) gitVersion(ctx context.Context) string {
	a, err := c.get(ctx, "version", "/version", nil, factTimeout)
	if err != nil {
		return ""
	}
	defer a.Close()
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if text, err := io.ReadAll(io.LimitReader(a, versionLimit)); err != nil || json.Unmarshal(text, &v) != nil {
		return ""
	}
	return v.GitVersion
}

// provider splits a providerID. On Azure it holds the resource group:
// azure:///subscriptions/<id>/resourceGroups/<group>/providers/…
func provider(id string) (cloud, resourceGroup string) {
	cloud, rest, ok := strings.Cut(id, "://")
	if !ok {
		return "", ""
	}
	if _, group, ok := strings.Cut(rest, "/resourceGroups/"); ok {
		resourceGroup, _, _ = strings.Cut(group, "/")
	}
	return cloud, resourceGroup
}
