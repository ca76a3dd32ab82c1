// SPDX-License-Identifier: Apache-2.0

// Package kube reads a Kubernetes API server over plain HTTP: it implements
// synchronizer.Cluster.
//
// There is no cache, no informer and no typed object. A LIST is decoded from
// the response body as it arrives, one item in memory at a time, and a WATCH one
// frame at a time; the raw bytes of an object are scanned once for its identity
// and handed on. So the memory of the client does not grow with the number of
// objects, and a number or a string is never re-formatted.
//
// What makes a list complete is decided here: every page was closed by its last
// brace and nothing stood behind it, the continue token was empty in the end,
// and every item had a name. Everything else is an error.
//
// Of client-go only rest.Config, its transports (certificates, tokens, exec
// plugins) and the loading of kubeconfig files are used.
package kube
