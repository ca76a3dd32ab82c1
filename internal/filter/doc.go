// SPDX-License-Identifier: Apache-2.0

// Package filter says which objects of a cluster are carried at all. What of
// them is carried is the business of package policy.
//
// The rules are static: they come from the configuration and do not change
// while the process runs.
//
//   - Namespaces: a non-empty list of included ones wins over the list of
//     excluded ones. Cluster-scoped objects and those of the operator's own
//     namespace are exempt.
//   - Child workloads: what a controller makes out of a workload (the pods of a
//     deployment, for example) says nothing new and changes all the time. It is
//     left out, except in the operator's own namespace or when it is asked for.
package filter
