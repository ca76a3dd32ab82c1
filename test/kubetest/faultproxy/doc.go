// SPDX-License-Identifier: Apache-2.0

// Package faultproxy stands between a client and a real API server and breaks
// what they say to each other.
//
// Package proxy, beside this one, breaks connections and knows nothing of what
// they carry. This one ends TLS (HTTP/2 and HTTP/1.1), reads each request as the
// API server would, and strikes the ones that a test has named:
//
//	p := faultproxy.New(t, cluster)
//	p.Arm(faultproxy.Watch("deployments").Times(1), faultproxy.GoneInStream{After: 2})
//	p.Arm(faultproxy.List("pods").Continued(), faultproxy.ExpiredContinue)
//	agent.Run(ctx, p.RESTConfig())
//
// Arm waits for requests that come. Strike hits the watches that are open now,
// which is how a client that has settled is disturbed:
//
//	p.Strike(faultproxy.Watch("deployments"), faultproxy.Silent{})
//
// Every strike is in Log, every request in Requests; PerMinute and Peak bound
// how eagerly a client asks. Both are kept as long as the proxy lives. What no
// fault touches passes byte for byte.
package faultproxy
