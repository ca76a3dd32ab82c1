// SPDX-License-Identifier: Apache-2.0

package config

// CommonResources are the kinds of the stock chart that every cluster serves; `up` and
// `agent` watch them where a configuration names none. They are those of the sample
// configuration/client, which a test holds equal.
func CommonResources() []Resource {
	return []Resource{
		{Group: "", Version: "v1", Resource: "services", Strategy: StrategyPatch},
		{Group: "", Version: "v1", Resource: "serviceaccounts", Strategy: StrategyPatch},
		{Group: "", Version: "v1", Resource: "persistentvolumes", Strategy: StrategyPatch},
		{Group: "", Version: "v1", Resource: "pods", Strategy: StrategyPatch},
		{Group: "", Version: "v1", Resource: "namespaces", Strategy: StrategyPatch},
		{Group: "", Version: "v1", Resource: "nodes", Strategy: StrategyPatch},
		{Group: "", Version: "v1", Resource: "configmaps", Strategy: StrategyPatch},
		{Group: "apps", Version: "v1", Resource: "deployments", Strategy: StrategyPatch},
		{Group: "apps", Version: "v1", Resource: "statefulsets", Strategy: StrategyPatch},
		{Group: "apps", Version: "v1", Resource: "daemonsets", Strategy: StrategyPatch},
		{Group: "apps", Version: "v1", Resource: "replicasets", Strategy: StrategyPatch},
		{Group: "batch", Version: "v1", Resource: "jobs", Strategy: StrategyPatch},
		{Group: "batch", Version: "v1", Resource: "cronjobs", Strategy: StrategyPatch},
		{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses", Strategy: StrategyPatch},
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies", Strategy: StrategyPatch},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings", Strategy: StrategyPatch},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings", Strategy: StrategyPatch},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Strategy: StrategyPatch},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles", Strategy: StrategyPatch},
		{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses", Strategy: StrategyPatch},
	}
}
