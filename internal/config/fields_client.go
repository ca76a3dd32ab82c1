// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"

	"synchronizer/internal/policy"
)

// clientFields declares the keys of the client's file. When a feature lands, delete the Status
// of its keys.
var clientFields = slices.Concat([]Field{
	{Path: "inCluster", Doc: "The client: what it watches and whom it tells."},
	{
		Path:    "inCluster.serverUrl",
		Doc:     "Address of the server. The file named by `SERVICES` (default `services.json` in `/etc/config`, if present) wins over it, and so does what `API_URL` tells.",
		Example: `"wss://synchronizer.example.com"`,
	},
	{
		Path:    "inCluster.namespace",
		Doc:     "Namespace in which the client runs; it is exempt from the namespace rules. `clusterData.json` wins over it.",
		Example: `"kubescape"`,
	},
	{
		Path:    "inCluster.clusterName",
		Doc:     "Name under which the backend knows the cluster, taken verbatim. `CLUSTER_NAME`, then `clusterData.json`, win over it.",
		Example: `"prod-eu-1"`,
	},
	{
		Path:    "inCluster.account",
		Doc:     "Account to which the cluster belongs; it must not contain `/`. If one of the files `account` and `accessKey` in `/etc/credentials` exists, these files win over both keys.",
		Example: `"local"`,
	},
	{
		Path:    "inCluster.accessKey",
		Doc:     "Key that lets the client in; see `inCluster.account`.",
		Example: `"REPLACE_ME"`,
	},
	{
		Path:    "inCluster.includeNamespaces",
		Doc:     "When not empty, only objects of these namespaces leave the cluster. Cluster-scoped objects and the client's own namespace always do.",
		Example: `"payments,shop"`,
	},
	{
		Path:    "inCluster.excludeNamespaces",
		Doc:     "Objects of these namespaces stay in the cluster, unless `includeNamespaces` is set.",
		Example: `["kube-system"]`,
	},
	{
		Path: "inCluster.includeChildWorkloads", Origin: Ours,
		Doc: "Also send pods, jobs and replica sets that a workload of `apps` or `batch` made.",
	},
	{
		Path:    "inCluster.namespaceFilterConfigMapName",
		Doc:     "Name of a ConfigMap in `inCluster.namespace`, which must then be set, whose key `namespaceFilters.json` replaces the namespace rules while the client runs; see [namespace-filter.md](namespace-filter.md). Empty: off.",
		Example: `"namespace-filters"`,
	},
	{
		Path: "inCluster.deduplication",
		Doc:  "Memory of the mutations from the backend that were applied, so that an exact repeat is skipped.",
	},
	{Path: "inCluster.deduplication.disabled", Doc: "Turns the memory off."},
	{Path: "inCluster.deduplication.ttlSeconds", Doc: "How long a mutation is remembered. Zero, negative or overflowing: the default."},
	{Path: "inCluster.deduplication.maxMessages", Doc: "How many mutations are remembered. Zero or negative: the default."},
	{
		Path: "inCluster.listPeriod", Status: Ignored,
		Doc: "Accepted for the sake of existing files: the client watches and does not list by period.",
	},
	{Path: "inCluster.resources", Doc: "The kinds that are kept in step with the backend. Kinds that the cluster does not serve are waited for. `*` for group, version or resource means what the cluster serves: of the versions the preferred one, and never secrets, events, leases, endpoints or endpoint slices unless they are named. An entry with fewer `*` wins."},
	{
		Path: "inCluster.coalesceWindow", Origin: Ours,
		Doc: "Changes of one object within this time after the first are sent as one; the last state wins.",
	},
	{
		Path: "inCluster.baselineCacheBytes", Origin: Ours, Bound: NonNegative,
		Doc: "Memory for the last sent state of objects, from which patches are made. 0: always send whole objects.",
	},
	{
		Path: "inCluster.windowBytes", Origin: Ours, Status: Planned, Bound: Positive,
		Doc: "How many bytes a v2 link may have sent without an acknowledgement.",
	},
	{
		Path: "inCluster.maxObjectBytes", Origin: Ours, Bound: Positive,
		Doc: "Objects above this size are not carried, and counted.",
	},
	{
		Path: "inCluster.qps", Origin: Ours, Bound: NonNegative,
		Doc: "Requests per second to the API server. 0: no limit beyond that of the API server itself.",
	},
	{
		Path: "inCluster.burst", Origin: Ours, Bound: NonNegative,
		Doc: "Requests that may exceed `qps` for a moment. 0: twice `qps`.",
	},
	{
		Path: "inCluster.healthPort", Origin: Ours, Bound: Port,
		Doc: "Port of `/healthz`, `/readyz`, `/metrics` and `/status`. 0: any free port.",
	},
	{
		Path: "inCluster.caFile", Origin: Ours,
		Doc:     "PEM file of authorities that may sign the server's certificate, and that of `API_URL`, beside those of the system.",
		Example: `"/etc/synchronizer/ca.crt"`,
	},
	{
		Path: "inCluster.spoolDir", Origin: Ours, Status: Planned,
		Doc:     "Folder on a disk that keeps posted reports until they are stored. Empty: no spool.",
		Example: `"/var/lib/synchronizer"`,
	},
	{
		Path: "inCluster.spoolMaxBytes", Origin: Ours, Status: Planned, Bound: Positive,
		Doc: "Size that the spool may reach.",
	},
	{
		Path: "inCluster.policy", Origin: Ours,
		Doc: "Rules that hide parts of objects before they leave the cluster, beyond the built-in ones; see [policy.md](policy.md). For each value the strongest rule holds, whatever their order. Try them with `synchronizer policy test`.",
	},
	{Path: "inCluster.policy[].match", Origin: Ours, Doc: "Which objects the rule is about."},
	{
		Path: "inCluster.policy[].match.group", Origin: Ours,
		Doc: "API group; empty for the core group, `*` for all.", Example: `"apps"`,
	},
	{
		Path: "inCluster.policy[].match.resource", Origin: Ours,
		Doc: "Plural name in lower case, or `*` for all; required.", Example: `"deployments"`,
	},
	{
		Path: "inCluster.policy[].match.namespaces", Origin: Ours,
		Doc:     "Only objects of these namespaces, cluster-scoped ones not; in a name `*` stands for any text. Empty: all objects.",
		Example: `["shop", "team-*"]`,
	},
	{
		Path: "inCluster.policy[].action", Origin: Ours, Enum: append([]string{""}, policy.Actions()...),
		Doc: "Required. `drop` removes, `mask` puts `XXXXXX` in the place, `hash` a salted SHA-256, `keep` removes the rest of the subtree, `reveal` shows what a built-in rule masks.",
	},
	{
		Path: "inCluster.policy[].paths", Origin: Ours,
		Doc:     "The fields, `[*]` for all elements of a list, `*` for all members, `['…']` for a name with dots; required.",
		Example: `["data.*", "metadata.annotations['example.com/owner']"]`,
	},
	{
		Path: "inCluster.policy[].salt", Origin: Ours,
		Doc: "Secret of 16 bytes or more that goes into every hash, so that what was hashed cannot be found by guessing. Only with `hash`.",
	},
	{
		Path: "inCluster.policy[].saltFile", Origin: Ours,
		Doc: "File that holds the salt, surrounding white space trimmed.", Example: `"/etc/synchronizer/salt"`,
	},
	{
		Path: "httpEndpoint",
		Doc:  "The endpoint to which other components post reports. Without this section there is none.",
	},
	{Path: "httpEndpoint.serverPort", Bound: Port, Doc: "Port of the endpoint."},
	{Path: "httpEndpoint.resources", Doc: "The kinds that may be posted."},
	{
		Path: "resources", Status: Ignored,
		Doc: "Accepted for the sake of existing files: kinds stand in `inCluster.resources` and `httpEndpoint.resources`.",
	},
}, resourceFields("inCluster.resources[].", Works), resourceFields("httpEndpoint.resources[].", Unsupported))

// resourceFields declares the keys of one kind, which two lists share; selecting is what this
// version does with those that select objects.
func resourceFields(prefix string, selecting Status) []Field {
	mode := Works
	if selecting != Works {
		mode = Planned
	}
	return []Field{
		{Path: prefix + "group", Doc: "API group; empty for the core group.", Example: `"apps"`},
		{Path: prefix + "version", Doc: "API version; required.", Example: `"v1"`},
		{Path: prefix + "resource", Doc: "Plural name in lower case; required.", Example: `"deployments"`},
		{
			Path: prefix + "strategy", Enum: []string{"", StrategyCopy, StrategyPatch},
			Doc:     "`copy` sends whole objects, `patch` sends differences. Absent: `copy`.",
			Example: `"patch"`,
		},
		{
			Path: prefix + "labelSelector", Origin: Ours, Status: selecting,
			Doc: "Only objects whose labels match, in the syntax of `kubectl get -l`.", Example: `"team=payments"`,
		},
		{
			Path: prefix + "fieldSelector", Origin: Ours, Status: selecting,
			Doc: "Only objects whose fields match, in the syntax of `kubectl get --field-selector`.", Example: `"metadata.name=settings"`,
		},
		{
			Path: prefix + "namespaces", Origin: Ours, Status: selecting,
			Doc: "Only objects of these namespaces, for kinds that have namespaces; the client then needs rights in these only.", Example: `["shop"]`,
		},
		{
			Path: prefix + "mode", Origin: Ours, Status: mode, Enum: []string{"", "object", "event"},
			Doc: "`object`: the newest state replaces the older one. `event`: every report is kept until it expires. Absent: `event` for the reports that Kubescape posts, else `object`.",
		},
	}
}
