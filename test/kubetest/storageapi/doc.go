// SPDX-License-Identifier: Apache-2.0

// Package storageapi is an aggregated API server for tests that behaves as the
// one of the storage group spdx.softwarecomposition.kubescape.io does in the
// field, and not as API servers usually do:
//
//   - LIST and WATCH give metadata and an empty spec; the body comes from a GET
//     by name, or from a LIST with resourceVersion=fullSpec for some kinds.
//   - A watch that asks for sendInitialEvents gets 422, and one without a
//     resourceVersion is not told of what exists.
//   - Some watches say nothing although objects change (see Behaviour).
//
// It is a real HTTPS server behind the real kube-apiserver, which authenticates
// and authorizes, and whose front-proxy certificate it demands:
//
//	storage := storageapi.New(t, cluster)
//	_, err := storage.Put("containerprofiles", "default", "nginx", []byte(`{"spec":{"architectures":["amd64"]}}`))
//	agent.Run(ctx, cluster.RESTConfig())
//	require.Equal(t, 1, storage.Gets("containerprofiles", "default", "nginx"))
//
// resourceVersions are numbers that count all writes to the group.
package storageapi
