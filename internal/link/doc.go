// SPDX-License-Identifier: Apache-2.0

// Package link is the live connection between a client and a server: link v1,
// one JSON frame (package wire) in one binary WebSocket message.
//
// The client end is made by [Dialer], the server end by [Accept]; both are a
// [synchronizer.Link]. What peers in the field force on it:
//
//   - A client in the field discards bytes that arrive together with the answer
//     to its upgrade, so the server end writes nothing before the client's first
//     frame has come. Ours is a Ping.
//   - A WebSocket ping frame corrupts the write side of such a client, so none is
//     ever sent. The client sends a Ping message every 50 s instead, which nobody
//     answers. The server ends a connection on which nothing was read for twice
//     that time; the client relies on TCP (keep-alive, TCP_USER_TIMEOUT) and on
//     the write of its Ping.
//   - A message has no size limit that would end the connection: one above
//     MaxMessageBytes is read as a stream, counted, named and forgotten.
//   - A peer may not read for a long time, so a write is limited by time without
//     progress, never by its total time.
//
// Link v2 will offer the subprotocol synchronizer.v2 in the same handshake; v1
// offers and accepts none.
package link
