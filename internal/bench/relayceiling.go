// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
)

// rawSide is a side that carries payloads that are not known beforehand.
type rawSide interface {
	side
	// send publishes payloads of one connection in their order, and returns when the
	// broker has confirmed them. Payloads are not kept.
	send(ctx context.Context, connection string, payloads [][]byte) error
}

// serveCeiling is the least that a server can do: a loop that reads frames from
// the WebSocket, and another one that gives what has gathered to the broker's
// library, whole and unread.
func serveCeiling(ctx context.Context, b *broker, mux *http.ServeMux, tally *relayTally, g *errgroup.Group) error {
	opened, err := b.raw(ctx, nil)
	if err != nil {
		return err
	}
	raw, ok := opened.(rawSide)
	if !ok {
		return errors.Join(errors.New("the library of the broker cannot be used without an adapter"), opened.close(ctx))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return // Accept has answered
		}
		defer func() { _ = ws.CloseNow() }()
		ws.SetReadLimit(-1)
		connection := r.Header.Get("X-API-CLUSTER")
		frames := make(chan []byte, relayUpward/recordBytes)
		publishing, running := errgroup.WithContext(ctx)
		publishing.Go(func() error { return publishFrames(running, raw, connection, frames) })
		publishing.Go(func() error {
			defer close(frames)
			return readFrames(running, ws, frames)
		})
		if err := publishing.Wait(); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "publishing frames:", err)
		}
	})
	g.Go(func() error {
		err := readRaw(ctx, raw, tally)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return errors.Join(err, raw.close(closing))
	})
	return nil
}

// readFrames reads until the client has gone.
func readFrames(ctx context.Context, ws *websocket.Conn, frames chan<- []byte) error {
	var buf bytes.Buffer
	for {
		_, r, err := ws.Reader(context.Background()) // a context of its own costs a goroutine a frame
		if err != nil {
			return nil //nolint:nilerr // the client has gone, or the process ends
		}
		buf.Reset()
		if _, err := io.Copy(&buf, r); err != nil {
			return nil //nolint:nilerr // the same
		}
		select {
		case frames <- slices.Clone(buf.Bytes()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// publishFrames publishes what has gathered while the call before was on its way.
func publishFrames(ctx context.Context, raw rawSide, connection string, frames <-chan []byte) error {
	var batch [][]byte
	for frame := range frames {
		batch = append(batch[:0], frame)
	gather:
		for len(batch) < cap(frames) {
			select {
			case frame, more := <-frames:
				if !more {
					break gather
				}
				batch = append(batch, frame)
			default:
				break gather
			}
		}
		if err := raw.send(ctx, connection, batch); err != nil {
			return err
		}
	}
	return nil
}

// readRaw counts and acknowledges.
func readRaw(ctx context.Context, raw side, tally *relayTally) error {
	for {
		n, bytes, ack, err := raw.next(ctx)
		if err == nil {
			err = ack(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading what was published: %w", err)
		}
		tally.add(n, bytes)
	}
}
