// SPDX-License-Identifier: Apache-2.0

// Package intake is the client's HTTP endpoint: other components of the cluster
// post reports to it, and it hands them to the backend as messages.
//
// A report is no object of the API server, so nothing can read it again. That
// makes the endpoint careful about what it takes (202 only when the [Outlet] has
// the message) and frank about what it does not (429 with Retry-After while the
// backend is known to be away, so that the caller keeps the report).
//
// A request passes these doors in this order, and the first that is shut answers:
//
//	route          path 400, method without any resource 405, unknown kind 404
//	authentication 401  TokenReview: a token for our audience
//	authorization  403  SubjectAccessReview: create on the resource in our namespace
//	               503  the API server cannot decide; never open, never remembered
//	admission      429  backend away, or all slots taken
//	body           413, 400
//
// All but the last are decided from the header alone: the answer is on its way
// before a byte of the body was asked for, and the connection ends with it. So
// who may not come in costs neither memory nor time, and those who may share ten
// slots of 4 MiB, two of which only alerts can have.
package intake
