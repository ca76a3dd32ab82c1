// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"synchronizer"
)

var _ synchronizer.Reachable = (*Queue)(nil)

// Reachable implements synchronizer.Reachable: the server answers on both
// connections, and JetStream has the streams.
func (q *Queue) Reachable(ctx context.Context) error {
	ctx, done := q.join(ctx)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	err := q.ask(ctx)
	if q.ctx.Err() != nil {
		err = context.Cause(q.ctx)
	}
	if err != nil {
		return fmt.Errorf("asking %s: %w", q.where(), err)
	}
	return nil
}

// where is the broker, for people.
func (q *Queue) where() string {
	if q.alone {
		return "the broker in this process"
	}
	return "NATS at " + strings.Join(q.write.Servers(), ", ")
}

func (q *Queue) ask(ctx context.Context) error {
	for _, c := range []struct {
		name string
		conn *natsgo.Conn
	}{{"write", q.write}, {"read", q.read}} {
		// The library would wait for the next connection.
		if status := c.conn.Status(); status != natsgo.CONNECTED {
			return fmt.Errorf("connection %s is %s: %w", c.name, strings.ToLower(status.String()),
				errors.Join(synchronizer.ErrDisconnected, c.conn.LastError(), reason(ctx, c.conn)))
		}
		if err := c.conn.FlushWithContext(ctx); err != nil {
			return fmt.Errorf("waiting for an answer on connection %s: %w", c.name, err)
		}
	}
	for _, d := range []synchronizer.Direction{synchronizer.Out, synchronizer.In} {
		if _, err := q.js.Stream(ctx, q.streamName(d)); err != nil {
			return fmt.Errorf("reading stream %s: %w", q.streamName(d), err)
		}
	}
	return nil
}

// reason is why no server of a lost connection can be reached; the library does not
// tell. It is nil if one can.
func reason(ctx context.Context, conn *natsgo.Conn) error {
	var all []error
	for _, server := range conn.Servers() {
		u, err := url.Parse(server)
		if err != nil {
			return nil
		}
		tcp, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
		if err == nil {
			_ = tcp.Close()
			return nil
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}
