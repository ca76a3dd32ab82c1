// SPDX-License-Identifier: Apache-2.0

// Package proxy is a TCP proxy in the test process that causes network faults.
//
// A test puts it between a client and a server and then delays, cuts,
// half-closes, swallows or corrupts what passes:
//
//	link := proxy.New(t, server.Addr)
//	client.Connect(link.Addr())
//	link.BlackHole(true) // the network is gone, both ends still believe in it
//
// Bytes are never reordered, and lost only by a cut connection, as with TCP.
package proxy
