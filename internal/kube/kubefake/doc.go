// SPDX-License-Identifier: Apache-2.0

// Package kubefake is a Kubernetes API server in memory, for tests of what
// reads one.
//
// It keeps the promises of [synchronizer.Cluster] as internal/kube does: one
// resourceVersion that counts all writes, lists in the API server's key order,
// watches that replay from a resourceVersion, the same bytes from LIST, WATCH
// and GET. It adds what a real one does on bad days: errors, held requests,
// watches that break, compaction, kinds that disappear, events that never come.
// Nothing depends on time. Bytes of an object are overwritten when the call that
// handed them over returns, so code that keeps them by mistake fails its tests.
package kubefake
