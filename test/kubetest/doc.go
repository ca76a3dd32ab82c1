// SPDX-License-Identifier: Apache-2.0

// Package kubetest gives tests a real Kubernetes API server.
//
// The server is the program of test/kubernetes: kube-apiserver and etcd in one
// process, built once (minutes) into the user's cache folder, ready in seconds
// afterwards. A test that wants its own:
//
//	cluster := kubetest.Start(t)
//	require.NoError(t, cluster.CreateCRD(t.Context(), "example.org", "v1", "things", "Thing", kubetest.Namespaced))
//	require.NoError(t, cluster.Apply(t.Context(), manifest))
//	agent.Run(ctx, cluster.RESTConfig())
//
// Many tests of a package share one through StartMain in TestMain; each of them
// then calls Require and works in its own namespace.
//
// No controller runs: pods stay Pending, owners are not garbage collected,
// and a deleted namespace stays in Terminating.
package kubetest
