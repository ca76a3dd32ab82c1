// SPDX-License-Identifier: Apache-2.0

// Package wire turns messages into the bytes of a link and back.
//
// On link v1 every message is one JSON document in one binary WebSocket message.
// The peers in the field are strict in odd places (a null Kind ends in a panic)
// and lax in others (keys in any case), so the package writes exactly the bytes
// that they write, in their member order and with their escapes, and reads
// everything that they read. What they really say is in testdata/frames-v1.jsonl,
// recorded from both sides.
//
// The events of the link and those of [synchronizer.Message]:
//
//	0 NewChecksum    Verify      5 PatchObject  Patch
//	2 ObjectDeleted  Delete      6 PutObject    Put
//	4 GetObject      Get         7 Ping         Ping
//	                             8 Batch        Batch
//
// 1 and 3 are deprecated; servers in the field publish nothing for them, so they
// are unknown events here, as every other number is. A ReconciliationRequest
// travels as one Batch a kind, of type "reconciliation", whose items are
// NewChecksums.
//
// A message that is in a trace has one member more, traceparent, in front of the
// last one. Peers in the field ignore it, as they ignore every key that they do not
// know; without tracing it is never there.
package wire
