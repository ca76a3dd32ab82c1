// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"net/http"
	"slices"
	"strings"

	"synchronizer"
)

// routes are the kinds by method and lower-case kind.
type routes map[string]map[synchronizer.Kind]Resource

func newRoutes(resources []Resource) routes {
	table := routes{}
	for _, resource := range resources {
		k := &resource.Kind
		k.Group, k.Version, k.Resource = strings.ToLower(k.Group), strings.ToLower(k.Version), strings.ToLower(k.Resource)
		method := http.MethodPost
		if resource.Patch {
			method = http.MethodPut
		}
		if table[method] == nil {
			table[method] = map[synchronizer.Kind]Resource{}
		}
		table[method][*k] = resource
	}
	return table
}

// find gives the resource of /apis/v1/<group>/<version>/<resource>, in any case
// of letters and of exactly this depth. The group of the core is empty.
func (t routes) find(method, path string) (Resource, *refusal) {
	parts := strings.Split(strings.ToLower(path), "/")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "apis" || parts[2] != "v1" || parts[4] == "" || parts[5] == "" {
		return Resource{}, &refusal{status: http.StatusBadRequest, text: "the path must be /apis/v1/<group>/<version>/<resource>"}
	}
	if len(t[method]) == 0 {
		return Resource{}, &refusal{status: http.StatusMethodNotAllowed, text: "no resource is taken by this method", allow: t.methods()}
	}
	resource, ok := t[method][synchronizer.Kind{Group: parts[3], Version: parts[4], Resource: parts[5]}]
	if !ok {
		return Resource{}, &refusal{status: http.StatusNotFound, text: "httpEndpoint.resources has no such resource for this method"}
	}
	return resource, nil
}

func (t routes) methods() string {
	var list []string
	for method := range t {
		list = append(list, method)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
