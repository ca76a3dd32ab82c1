// SPDX-License-Identifier: Apache-2.0

// Package filter says which objects of a cluster are carried at all. What of
// them is carried is the business of package policy.
//
//   - Namespaces: as soon as something is included (by name or by regex), only
//     that is carried, and exclusions are not looked at. Cluster-scoped objects
//     and those of the operator's own namespace are exempt.
//   - Child workloads: what a controller makes out of a workload (the pods of a
//     deployment, for example) says nothing new and changes all the time. It is
//     left out, except in the operator's own namespace or when it is asked for.
//
// A [Filter] answers for one object and is used by everything that sends. Its
// namespace rules come from one of two places, never from both:
//
//   - the configuration, with [New]; then they do not change;
//   - a ConfigMap, with [NewLive] and a [Watcher]. The rules are replaced as a
//     whole while the process runs, by every document that [ParseDocument]
//     accepts. Until the first one nothing is carried; afterwards the last valid
//     rules stay in force, whatever happens to the ConfigMap or the API server.
//
// Rules decide what is sent. That an object is no longer carried does not mean
// that it was deleted, and must not be told as that.
package filter
