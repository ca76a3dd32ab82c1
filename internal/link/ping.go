// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"synchronizer"
)

// headerPing is how a client of ours asks a server of ours for a Ping so often (a
// duration such as 50s), since link v1 says nothing to an idle client, which then
// cannot tell a dead path from a quiet one. Servers in the field ignore the header,
// and clients in the field do not send it, so neither sees anything of this.
const headerPing = "X-SYNCHRONIZER-PING"

// leastPingShare bounds what a client may ask for to a fifth of the server's own
// interval.
const leastPingShare = 5

// askedPings is how often a client wants a Ping; 0 if it did not ask.
func askedPings(r *http.Request, limits Limits) time.Duration {
	asked, err := time.ParseDuration(r.Header.Get(headerPing))
	if err != nil || asked <= 0 {
		return 0
	}
	return max(asked, limits.PingInterval/leastPingShare)
}

// ping sends a Ping message; the WebSocket's own ping frames would corrupt the
// write side of peers in the field.
func (l *v1) ping(ctx context.Context) error {
	return l.Send(ctx, synchronizer.Message{Event: synchronizer.EventPing, MsgID: uuid.NewString()})
}

// startPinging sends a Ping after first, and then one every interval until the link
// is dead. Between them there is only a timer, no goroutine.
func (l *v1) startPinging(first, interval time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.pings = time.AfterFunc(first, func() { l.pingAndAgain(interval) })
}

func (l *v1) pingAndAgain(interval time.Duration) {
	l.mu.Lock()
	dead := l.err != nil
	if !dead {
		l.running.Add(1) // before err is set, and so before Close waits
	}
	l.mu.Unlock()
	if dead {
		return
	}
	defer l.running.Done()
	if err := l.ping(context.Background()); err != nil {
		return // the link is dead; Receive says so
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.pings.Reset(interval)
	}
}

// pinged notes that the peer sends Pings: from now on its silence means something.
func (l *v1) pinged() { l.conn.readIdle.CompareAndSwap(0, int64(2*l.limits.PingInterval)) }
