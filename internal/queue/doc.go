// SPDX-License-Identifier: Apache-2.0

// Package queue translates between messages and the records of a broker.
//
// A record has a key, properties and a payload. The properties say what the
// record is (event, account, cluster, object) and decide where it goes; a
// payload that contradicts them is refused. There are two encodings, and a
// reader tells them apart by the record itself, so both may stand on one topic:
//
//   - [Field]: the payload is the JSON document that the system in the field
//     writes, with bodies in base64. Everyone on the topic understands it.
//   - [Compact]: the payload is the body, byte for byte, and the rest (checksum,
//     depth, message id) travels as properties. Nothing is parsed or copied.
//     Messages without a body of their own (who is connected, reconciliations)
//     are the same JSON in both encodings.
//
// A body is never encoded again: its bytes after [Decode] are those given to
// [Encoder.Encode].
//
// The brokers themselves are in the packages below this one; each of them
// passes the suite of package queuetest.
package queue
