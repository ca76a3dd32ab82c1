// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// crossing leads clients to servers, in turn, as a load balancer does. Its
// connections can be broken in the way that hurts: the server goes on to believe
// in a client that has long been somewhere else.
type crossing struct {
	t        testing.TB
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	targets []string // the next one first
	pairs   []*pair
	closed  bool
}

// pair is one connection through the crossing.
type pair struct {
	target         string
	client, server net.Conn

	mu   sync.Mutex
	held bool   // nothing passes
	late []byte // what the client said meanwhile
}

// newCrossing leads to the targets until the test ends.
func newCrossing(t testing.TB, targets ...string) *crossing {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	c := &crossing{t: t, listener: listener, targets: targets}
	c.running.Go(c.accept)
	t.Cleanup(func() {
		c.mu.Lock()
		c.closed = true
		pairs := slices.Clone(c.pairs)
		c.mu.Unlock()
		_ = listener.Close()
		for _, p := range pairs {
			p.end()
		}
		c.running.Wait()
	})
	return c
}

func (c *crossing) address() string { return c.listener.Addr().String() }

// lead sends connections from now on to these targets only.
func (c *crossing) lead(targets ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.targets = targets
}

// hold is the black hole: of what the connections to a target carry, nothing
// arrives any more, in either direction, and neither end is told.
func (c *crossing) hold(target string) {
	for _, p := range c.to(target) {
		p.mu.Lock()
		p.held = true
		p.mu.Unlock()
	}
}

// swallowed reports whether every client behind a target has said something into
// the black hole.
func (c *crossing) swallowed(target string) bool {
	for _, p := range c.to(target) {
		p.mu.Lock()
		n := len(p.late)
		p.mu.Unlock()
		if n == 0 {
			return false
		}
	}
	return true
}

// lose ends the client's side of what is held. The server's side stays.
func (c *crossing) lose(target string) {
	for _, p := range c.to(target) {
		_ = p.client.Close()
	}
}

// end ends the server's side too. What the client had said into the black hole
// arrives before, if late is set.
func (c *crossing) end(target string, late bool) {
	for _, p := range c.to(target) {
		if late {
			p.mu.Lock()
			_, _ = p.server.Write(p.late) // the server may be gone
			p.mu.Unlock()
		}
		p.end()
	}
}

// open is how many connections lead to a target.
func (c *crossing) open(target string) int { return len(c.to(target)) }

func (c *crossing) to(target string) []*pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*pair
	for _, p := range c.pairs {
		if p.target == target {
			list = append(list, p)
		}
	}
	return list
}

func (c *crossing) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.running.Go(func() { c.forward(client) })
	}
}

// forward tries the targets in turn, as many as there are.
func (c *crossing) forward(client net.Conn) {
	c.mu.Lock()
	tries := slices.Clone(c.targets)
	if len(c.targets) > 1 {
		c.targets = append(slices.Clone(c.targets[1:]), c.targets[0])
	}
	c.mu.Unlock()
	for _, target := range tries {
		server, err := net.Dial("tcp", target)
		if err != nil {
			continue
		}
		p := &pair{target: target, client: client, server: server}
		c.mu.Lock()
		c.pairs = append(c.pairs, p)
		closed := c.closed
		c.mu.Unlock()
		if closed { // its list was taken before
			p.end()
		}
		p.run()
		c.mu.Lock()
		c.pairs = slices.DeleteFunc(c.pairs, func(other *pair) bool { return other == p })
		c.mu.Unlock()
		return
	}
	_ = client.Close()
}

func (p *pair) end() {
	_ = p.client.Close()
	_ = p.server.Close()
}

func (p *pair) run() {
	var up sync.WaitGroup
	up.Go(func() {
		carry(p.client, p.up)
		p.mu.Lock()
		held := p.held
		p.mu.Unlock()
		if !held {
			_ = p.server.Close()
		}
	})
	carry(p.server, p.down)
	p.end()
	up.Wait()
}

// carry gives what comes to a function until either ends.
func carry(from io.Reader, take func([]byte) error) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			err = errors.Join(take(buffer[:n]), err)
		}
		if err != nil {
			return
		}
	}
}

func (p *pair) up(said []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		p.late = append(p.late, said...)
		return nil
	}
	_, err := p.server.Write(said)
	return err
}

func (p *pair) down(said []byte) error {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held {
		return nil // swallowed
	}
	_, err := p.client.Write(said)
	return err
}
