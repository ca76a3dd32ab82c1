// SPDX-License-Identifier: Apache-2.0

// Package patch makes and applies JSON merge patches (RFC 7386) on raw JSON.
// What a patch does not touch keeps its exact bytes: numbers are not
// re-formatted, strings are not re-encoded, members keep their order.
//
// Patches travel on link v1, whose peers in the field do less than the RFC: null
// members of objects inside arrays are dropped, and numbers pass through
// float64. Diff therefore tells whether a patch carries a change exactly, and
// where it does not, the whole object is to be sent.
//
// Both functions read each document once into an index of its values and work
// on that, so that the time is linear in the size of the documents, but for
// sorting the names of objects that are changed, whatever the nesting.
package patch
