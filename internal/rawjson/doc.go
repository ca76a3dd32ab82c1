// SPDX-License-Identifier: Apache-2.0

// Package rawjson reads JSON documents as bytes, without decoding them.
//
// Objects pass through Synchronizer byte-exact: a number is never re-formatted
// and a member is never re-ordered. So the code that looks at an object
// (identity, policy, checksum) moves a Cursor over the bytes and takes slices
// of them. Nothing is decoded into maps, and a document is read once.
//
// The rules that hold everywhere in this package and for its callers:
//
//   - Grammar: RFC 8259, strictly. Trailing content, bad escapes, control
//     characters in strings, leading zeros and the like are errors that match
//     ErrSyntax. Nesting deeper than MaxDepth is an error that matches ErrDepth.
//     Nothing panics.
//   - Invalid UTF-8 inside a string is accepted, as encoding/json does. It is
//     passed through where bytes are passed through, and reads as U+FFFD where a
//     string is decoded. So is an escaped surrogate without its other half.
//   - Duplicate member names: the last one wins, as when encoding/json decodes
//     into a map. Names are compared after decoding their escapes.
//
// Slices that are returned point into the document. They are valid as long as
// the document is not changed, and must not be written to.
package rawjson
