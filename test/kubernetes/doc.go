// SPDX-License-Identifier: Apache-2.0

// Command kubernetes is a real Kubernetes API server for tests: the
// kube-apiserver of k8s.io/kubernetes with an embedded etcd beside it in one
// process, and kubectl in the same file.
//
//	kubernetes run --dir DIR             serve until SIGTERM, data in DIR
//	kubernetes kubectl get pods -A       kubectl (also if the file is called kubectl)
//
// There is no controller manager, scheduler or kubelet: objects are stored,
// validated, authorized and watched as in any cluster, but pods never run,
// owners are not garbage collected, a deleted namespace stays in Terminating,
// and a namespace has no default service account unless somebody makes it.
//
// It lives in its own module, so that the product never depends on
// k8s.io/kubernetes. Tests use it through synchronizer/test/kubetest.
package main
