// SPDX-License-Identifier: Apache-2.0

package storageapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// served are the kinds in the order of discovery.
var served = []struct {
	resource, kind string
	namespaced     bool
	// fullList tells whether resourceVersion=fullSpec gives whole objects.
	fullList bool
}{
	{"applicationprofiles", "ApplicationProfile", true, false},
	{"containerprofiles", "ContainerProfile", true, true},
	{"knownservers", "KnownServer", false, true},
	{"networkneighborhoods", "NetworkNeighborhood", true, false},
	{"sbomsyftfiltereds", "SBOMSyftFiltered", true, true},
	{"sbomsyfts", "SBOMSyft", true, true},
	{"seccompprofiles", "SeccompProfile", true, true},
}

// discovery returns the document at path, if it is one of discovery.
func discovery(path string) (any, bool) {
	version := metav1.GroupVersionForDiscovery{GroupVersion: groupVersion, Version: Version}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: Group,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	switch path {
	case "/apis":
		return metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group}}, true
	case "/apis/" + Group:
		return group, true
	case root:
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion}
		for _, k := range served {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.resource, SingularName: k.resource[:len(k.resource)-1], Kind: k.kind, Namespaced: k.namespaced,
				Verbs: metav1.Verbs{"create", "delete", "get", "list", "update", "watch"},
			})
		}
		return list, true
	}
	return nil, false
}
