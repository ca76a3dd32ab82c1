// SPDX-License-Identifier: Apache-2.0

package synchronizer

import "context"

// Hello is what a client says of itself in the handshake. All but the cluster
// may be empty.
type Hello struct {
	ClusterID
	SynchronizerVersion string // "v<semver>"
	HelmVersion         string
	GitVersion          string // of the API server
	CloudProvider       string
	ClusterUID          string
	ResourceGroup       string
}

// Link is one live connection between a client and a server, seen from either
// end. Link v1 is one JSON frame a message; package link holds the adapters.
//
// Calls from several goroutines are safe, but only one may be in Receive. After
// the first error of Send or Receive, or Close, the link is dead: every call
// returns an error that wraps ErrClosed (this side closed it) or ErrDisconnected
// (everything else).
type Link interface {
	// Send writes the messages in the order given and returns when their bytes
	// were handed to the operating system, which is no sign that the peer got
	// them. It blocks while the peer does not read, at most the link's write limit
	// without byte progress; ctx bounds it too, and since a frame cut in half
	// cannot be continued, an expired ctx closes the link. Messages that a Send
	// that failed was given may or may not have arrived. Bodies are not kept after
	// the return. A message above the link's size limit is not written: the others
	// are, and the error wraps ErrTooLarge without closing the link.
	Send(ctx context.Context, msgs ...Message) error

	// Receive waits for the next message. Frames that cannot be understood, are
	// too deep or too large are counted and named by the link's DropFunc and
	// skipped; pings are handled inside. The caller owns the message's bytes.
	Receive(ctx context.Context) (Message, error)

	// Peer is what the client said of itself in the handshake (on both ends).
	Peer() Hello

	// Close ends the connection, a blocked Send or Receive included, and returns
	// when nothing of it runs any more. The code is a WebSocket close code (1001
	// going away); a peer that is gone does not delay it for more than a second.
	Close(code int, reason string) error
}

// Dialer makes links; the agent calls it again, with back-off, whenever a link
// has ended. Errors that wrap ErrUnauthorized or ErrUnsupportedVersion are final
// at the first connect.
type Dialer interface {
	Dial(ctx context.Context) (Link, error)
}
