// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"

	"synchronizer"
	"synchronizer/internal/kube/recorded"
)

// builtinKinds are kinds that every API server has, Deployments first. Those that
// never rest (events, leases) are not among them, nor are secrets.
var builtinKinds = []struct {
	group, version, resource, objectKind string
	namespaced                           bool
}{
	{"apps", "v1", "deployments", "Deployment", true},
	{"", "v1", "pods", "Pod", true},
	{"", "v1", "configmaps", "ConfigMap", true},
	{"", "v1", "services", "Service", true},
	{"", "v1", "serviceaccounts", "ServiceAccount", true},
	{"", "v1", "namespaces", "Namespace", false},
	{"", "v1", "nodes", "Node", false},
	{"", "v1", "persistentvolumes", "PersistentVolume", false},
	{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true},
	{"", "v1", "replicationcontrollers", "ReplicationController", true},
	{"", "v1", "resourcequotas", "ResourceQuota", true},
	{"", "v1", "limitranges", "LimitRange", true},
	{"apps", "v1", "statefulsets", "StatefulSet", true},
	{"apps", "v1", "daemonsets", "DaemonSet", true},
	{"apps", "v1", "replicasets", "ReplicaSet", true},
	{"batch", "v1", "jobs", "Job", true},
	{"batch", "v1", "cronjobs", "CronJob", true},
	{"networking.k8s.io", "v1", "ingresses", "Ingress", true},
	{"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true},
	{"rbac.authorization.k8s.io", "v1", "roles", "Role", true},
	{"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", true},
	{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false},
	{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false},
	{"autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true},
	{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true},
	{"networking.k8s.io", "v1", "ingressclasses", "IngressClass", false},
	{"storage.k8s.io", "v1", "storageclasses", "StorageClass", false},
	{"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false},
	{"apps", "v1", "controllerrevisions", "ControllerRevision", true},
	{"", "v1", "podtemplates", "PodTemplate", true},
}

// servedKinds is the first n.
func servedKinds(n int) []synchronizer.Kind {
	kinds := make([]synchronizer.Kind, 0, n)
	for _, k := range builtinKinds[:n] {
		kinds = append(kinds, synchronizer.Kind{Group: k.group, Version: k.version, Resource: k.resource})
	}
	return kinds
}

// emptySets is the first n without objects for a stub, except Deployments, of
// which it has some.
func emptySets(n int) []*recorded.Set {
	sets := make([]*recorded.Set, 0, n)
	for i, kind := range servedKinds(n)[1:] {
		k := builtinKinds[1+i]
		sets = append(sets, recorded.EmptySet(kind, k.objectKind, k.namespaced))
	}
	return sets
}

// absentKinds are n kinds that no API server has, each of another group, which
// is the worst case: nothing can be asked for two of them at once.
func absentKinds(n int) []synchronizer.Kind {
	kinds := make([]synchronizer.Kind, 0, n)
	for i := range n {
		kinds = append(kinds, synchronizer.Kind{Group: fmt.Sprintf("absent-%02d.bench.example.org", i), Version: "v1", Resource: "things"})
	}
	return kinds
}
