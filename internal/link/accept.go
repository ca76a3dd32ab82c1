// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"synchronizer"
)

// Options of the server end of a link.
type Options struct {
	// Hello is what ParseHello gave; Peer returns it.
	Hello   synchronizer.Hello
	Limits  Limits
	Drop    synchronizer.DropFunc // may be nil
	Metrics *Metrics              // may be nil
	// Wrap may put something around the link, such as spans; may be nil.
	Wrap func(synchronizer.Link) synchronizer.Link
}

// Accept upgrades an authenticated request to a link. It answers a request that
// is no upgrade with 400, as servers in the field do. No subprotocol and no
// extension is accepted, and the answer has no headers but the three of the
// upgrade: those that w already has are removed.
//
// Send on the link waits for the first frame of the client, so Receive must run.
func Accept(w http.ResponseWriter, r *http.Request, opts Options) (synchronizer.Link, error) {
	for _, name := range []string{"Upgrade", "Connection"} {
		want := map[string]string{"Upgrade": "websocket", "Connection": "upgrade"}[name]
		if !hasToken(r.Header.Values(name), want) {
			err := fmt.Errorf("handshake error: bad %q header", name)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return nil, fmt.Errorf("%w: %w", synchronizer.ErrInvalid, err)
		}
	}
	limits := opts.Limits.withDefaults(serverWriteTimeout)
	clear(w.Header())
	w.Header()["Date"] = nil // net/http adds it otherwise
	h := &hijacker{ResponseWriter: w, readIdle: 2 * limits.PingInterval, writeIdle: limits.WriteTimeout}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, fmt.Errorf("upgrading to a websocket: %w", err)
	}
	l := newV1(ws, h.conn, opts.Hello, limits, opts.Drop, opts.Metrics)
	l.pingEvery, l.reader = askedPings(r, limits), h.reader
	if opts.Wrap != nil {
		return opts.Wrap(l), nil
	}
	return l, nil
}

func hasToken(values []string, want string) bool {
	for _, value := range values {
		for token := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(token), want) {
				return true
			}
		}
	}
	return false
}

// hijacker puts conn between the WebSocket and the server's connection, above
// TLS if there is any.
type hijacker struct {
	http.ResponseWriter
	readIdle, writeIdle time.Duration
	conn                *conn
	reader              *bufio.Reader
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	inner, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if err := inner.SetDeadline(time.Time{}); err != nil {
		return nil, nil, errors.Join(err, inner.Close())
	}
	h.conn = newConn(inner, h.readIdle, h.writeIdle)
	// What was sent behind the request is in a buffer of net/http, which is large.
	early, err := rw.Reader.Peek(rw.Reader.Buffered())
	if err != nil {
		return nil, nil, errors.Join(err, inner.Close())
	}
	h.conn.ahead = bytes.Clone(early)
	// Only headers of frames pass through these buffers; bodies go straight to conn.
	h.reader = bufio.NewReaderSize(h.conn, headerReaderBytes)
	return h.conn, bufio.NewReadWriter(h.reader, bufio.NewWriterSize(h.conn, headerWriterBytes)), nil
}
