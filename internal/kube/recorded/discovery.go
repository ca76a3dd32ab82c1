// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"synchronizer"
	"synchronizer/internal/kube"
)

// EmptySet is a kind that is served and has no objects.
func EmptySet(kind synchronizer.Kind, objectKind string, namespaced bool) *Set {
	return &Set{Kind: kind, ObjectKind: objectKind, Namespaced: namespaced, ResourceVersion: "1"}
}

// definitions are the two kinds by which clients learn that kinds come and go;
// every API server has them.
func definitions() []*Set {
	return []*Set{
		EmptySet(kube.CRDs, "CustomResourceDefinition", false),
		EmptySet(kube.APIServices, "APIService", false),
	}
}

// What is asked for and answered of aggregated discovery (KEP-3352), and of one
// group in the older form.
type (
	groupDiscoveryList struct {
		Kind       string           `json:"kind"`
		APIVersion string           `json:"apiVersion"`
		Metadata   struct{}         `json:"metadata"`
		Items      []groupDiscovery `json:"items"`
	}
	groupDiscovery struct {
		Metadata struct {
			Name string `json:"name,omitempty"`
		} `json:"metadata"`
		Versions []versionDiscovery `json:"versions"`
	}
	versionDiscovery struct {
		Version   string              `json:"version"`
		Freshness string              `json:"freshness"`
		Resources []resourceDiscovery `json:"resources"`
	}
	resourceDiscovery struct {
		Resource     string       `json:"resource"`
		ResponseKind responseKind `json:"responseKind"`
		Scope        string       `json:"scope"`
		Singular     string       `json:"singularResource"`
		Verbs        []string     `json:"verbs"`
	}
	responseKind struct {
		Group   string `json:"group"`
		Version string `json:"version"`
		Kind    string `json:"kind"`
	}
	apiGroup struct {
		Kind       string            `json:"kind"`
		APIVersion string            `json:"apiVersion"`
		Name       string            `json:"name"`
		Versions   []apiGroupVersion `json:"versions"`
		Preferred  apiGroupVersion   `json:"preferredVersion"`
	}
	apiGroupVersion struct {
		GroupVersion string `json:"groupVersion"`
		Version      string `json:"version"`
	}
)

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// groups answers /api and /apis, in the aggregated form only.
func (s *Server) groups(w http.ResponseWriter, r *http.Request, core bool) {
	if !strings.Contains(r.Header.Get("Accept"), aggregated) {
		writeStatus(w, http.StatusNotAcceptable, "NotAcceptable", "only aggregated discovery is served", "")
		return
	}
	list := groupDiscoveryList{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2", Items: []groupDiscovery{}}
	for _, kind := range s.sorted() {
		if (kind.Group == "") != core {
			continue
		}
		last := len(list.Items) - 1
		if last < 0 || list.Items[last].Metadata.Name != kind.Group {
			list.Items = append(list.Items, groupDiscovery{})
			last++
			list.Items[last].Metadata.Name = kind.Group
		}
		group := &list.Items[last]
		at := len(group.Versions) - 1
		if at < 0 || group.Versions[at].Version != kind.Version {
			group.Versions = append(group.Versions, versionDiscovery{Version: kind.Version, Freshness: "Current"})
			at++
		}
		set, scope := s.kinds[kind].set, "Cluster"
		if set.Namespaced {
			scope = "Namespaced"
		}
		group.Versions[at].Resources = append(group.Versions[at].Resources, resourceDiscovery{
			Resource: kind.Resource, ResponseKind: responseKind{kind.Group, kind.Version, set.ObjectKind},
			Scope: scope, Singular: strings.ToLower(set.ObjectKind), Verbs: verbs,
		})
	}
	w.Header().Set("Content-Type", aggregated)
	_ = json.NewEncoder(w).Encode(list)
}

var verbs = []string{"get", "list", "watch"}

// group answers /apis/group.
func (s *Server) group(w http.ResponseWriter, r *http.Request, name string) {
	answer := apiGroup{Kind: "APIGroup", APIVersion: "v1", Name: name}
	for _, kind := range s.sorted() {
		version := apiGroupVersion{kind.GroupVersion(), kind.Version}
		if kind.Group == name && !slices.Contains(answer.Versions, version) {
			answer.Versions = append(answer.Versions, version)
		}
	}
	if len(answer.Versions) == 0 {
		http.NotFound(w, r)
		return
	}
	answer.Preferred = answer.Versions[0]
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// sorted is the kinds that are served, by group, version and name.
func (s *Server) sorted() []synchronizer.Kind {
	kinds := make([]synchronizer.Kind, 0, len(s.kinds))
	for kind := range s.kinds {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b synchronizer.Kind) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version), strings.Compare(a.Resource, b.Resource))
	})
	return kinds
}
