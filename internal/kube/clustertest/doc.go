// SPDX-License-Identifier: Apache-2.0

// Package clustertest is the contract of synchronizer.Cluster as tests. Every
// implementation runs it: the adapter against a real API server, and the fake,
// so that what tests assume of the fake is true of Kubernetes.
package clustertest
