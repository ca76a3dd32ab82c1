// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"

	"synchronizer/internal/wire"
)

// gathered joins the writes of a WebSocket, two or three a frame, into few.
type gathered struct {
	net.Conn

	mu  sync.Mutex
	buf []byte // nil: write at once
}

const gatherBytes = 64 << 10

func (c *gathered) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buf == nil {
		return c.Conn.Write(p)
	}
	if len(c.buf)+len(p) > gatherBytes {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	c.buf = append(c.buf, p...)
	return len(p), nil
}

// gather begins to join writes.
func (c *gathered) gather() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = make([]byte, 0, gatherBytes)
}

// end writes what has gathered.
func (c *gathered) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush()
}

// flush needs the lock.
func (c *gathered) flush() error {
	_, err := c.Conn.Write(c.buf)
	c.buf = c.buf[:0]
	return err
}

// benchClient is a WebSocket client that only sends.
type benchClient struct {
	conn *gathered
	ws   *websocket.Conn
	done chan struct{} // closed when nothing reads any more
}

// dialBench connects as a client of link v1 does.
func dialBench(ctx context.Context, address string, number int) (*benchClient, error) {
	c := &benchClient{done: make(chan struct{})}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.conn = &gathered{Conn: inner}
		return c.conn, nil
	}}
	id := recordCluster(number)
	header := http.Header{}
	for name, value := range map[string]string{
		"X-API-KEY": "bench", "X-API-ACCOUNT": id.Account, "X-API-CLUSTER": id.Cluster, "X-SYNCHRONIZER-VERSION": "v1.0.0",
	} {
		header.Set(name, value)
	}
	var err error
	c.ws, _, err = websocket.Dial(ctx, "ws://"+address+"/", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting a client: %w", err)
	}
	c.ws.SetReadLimit(-1)
	go func() {
		defer close(c.done)
		for { // what the server says is thrown away
			if _, _, err := c.ws.Read(context.Background()); err != nil {
				return
			}
		}
	}()
	c.conn.gather()
	return c, nil
}

// send sends n of the frames, from the first on, again and again.
func (c *benchClient) send(ctx context.Context, frames [][]byte, n int) error {
	defer context.AfterFunc(ctx, func() { _ = c.conn.Close() })()
	for i := range n {
		if err := c.ws.Write(context.Background(), websocket.MessageBinary, frames[i%len(frames)]); err != nil {
			return fmt.Errorf("sending: %w", err)
		}
	}
	return c.conn.end()
}

func (c *benchClient) close() {
	_ = c.conn.Close() // not in order: nothing is under way
	_ = c.ws.CloseNow()
	<-c.done
}

// putFrames are PutObjects on link v1, with bodies of recordBytes.
func putFrames(seed uint64) (frames [][]byte, err error) {
	for _, m := range putMessages(seed, recordSet, recordBytes) {
		frame, err := wire.AppendV1(nil, &m)
		if err != nil {
			return nil, fmt.Errorf("encoding a frame: %w", err)
		}
		frames = append(frames, slices.Clip(frame))
	}
	return frames, nil
}

func dialAll(ctx context.Context, address string, n int) (clients []*benchClient, err error) {
	for i := range n {
		c, err := dialBench(ctx, address, i)
		if err != nil {
			hangUp(clients)
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func hangUp(clients []*benchClient) {
	for _, c := range clients {
		c.close()
	}
}

// sendAll lets each client send its share of n messages, at the same time.
func sendAll(ctx context.Context, clients []*benchClient, frames [][]byte, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, c := range clients {
		share := n / len(clients)
		if i < n%len(clients) {
			share++
		}
		g.Go(func() error { return c.send(ctx, frames, share) })
	}
	return g.Wait()
}
