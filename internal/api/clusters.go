// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"time"

	"synchronizer"
)

// Cluster is one cluster as the API shows it.
type Cluster struct {
	Account       string     `json:"account"`
	Cluster       string     `json:"cluster"`
	Version       string     `json:"synchronizerVersion,omitempty"`
	HelmVersion   string     `json:"helmVersion,omitempty"`
	GitVersion    string     `json:"gitVersion,omitempty"` // of the API server
	CloudProvider string     `json:"cloudProvider,omitempty"`
	FirstSeen     time.Time  `json:"firstSeen,omitzero"`
	LastConnected time.Time  `json:"lastConnected,omitzero"`
	LastSeen      time.Time  `json:"lastSeen,omitzero"`
	Objects       int64      `json:"objects"`
	Kinds         []KindInfo `json:"kinds"`
}

// KindInfo is what is stored of one kind of a cluster.
type KindInfo struct {
	Group      string    `json:"group"`
	Version    string    `json:"version"`
	Resource   string    `json:"resource"`
	Objects    int64     `json:"objects"`
	LastChange time.Time `json:"lastChange,omitzero"`
}

// ClusterList is the answer of GET /api/v1/clusters.
type ClusterList struct {
	Items []Cluster `json:"items"`
}

func (s *server) listClusters(w http.ResponseWriter, r *http.Request) error {
	if err := checkParameters(r.URL.Query(), map[string]bool{"account": false}); err != nil {
		return err
	}
	q := synchronizer.ObjectQuery{Account: r.URL.Query().Get("account")}
	if err := narrow(r, &q); err != nil {
		return err
	}
	id := synchronizer.ClusterID{Account: q.Account}
	if len(q.Clusters) == 1 {
		id.Cluster = q.Clusters[0]
	}
	found, err := s.Reader.Clusters(r.Context(), id)
	if err != nil {
		return err
	}
	list := ClusterList{Items: make([]Cluster, len(found))}
	for i := range found {
		list.Items[i] = clusterOf(&found[i])
	}
	return writeJSON(w, list)
}

func (s *server) getCluster(w http.ResponseWriter, r *http.Request) error {
	q := synchronizer.ObjectQuery{Account: r.PathValue("account"), Clusters: []string{r.PathValue("cluster")}}
	if err := narrow(r, &q); err != nil {
		return err
	}
	id := synchronizer.ClusterID{Account: q.Account, Cluster: q.Clusters[0]}
	found, err := s.Reader.Clusters(r.Context(), id)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("cluster %s: %w", id, synchronizer.ErrNotFound)
	}
	return writeJSON(w, clusterOf(&found[0]))
}

func clusterOf(c *synchronizer.ClusterStatus) Cluster {
	out := Cluster{
		Account: c.Account, Cluster: c.Cluster,
		Version: c.Client.SynchronizerVersion, HelmVersion: c.Client.HelmVersion, GitVersion: c.Client.GitVersion,
		CloudProvider: c.Client.CloudProvider,
		FirstSeen:     c.FirstSeen, LastConnected: c.Client.ConnectionTime, LastSeen: c.LastSeen,
		Kinds: make([]KindInfo, len(c.Kinds)),
	}
	for i, k := range c.Kinds {
		out.Kinds[i] = KindInfo{Group: k.Kind.Group, Version: k.Kind.Version, Resource: k.Kind.Resource, Objects: k.Objects, LastChange: k.LastChange}
		out.Objects += k.Objects
	}
	return out
}
