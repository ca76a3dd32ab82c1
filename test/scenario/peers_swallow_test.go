// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/test/kubetest"
)

// swallower is a TCP proxy that can stop to forward, in one direction or in both,
// silently: it reads on, and no end of a connection passes either.
type swallower struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup
	blocked  [2]atomic.Bool // to the server, to the client

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

const (
	toServer = 0
	toClient = 1
)

func newSwallower(t *testing.T, target string) *swallower {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &swallower{listener: listener, target: target}
	s.running.Go(s.accept)
	t.Cleanup(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		_ = listener.Close()
		s.dies()
		s.running.Wait()
	})
	return s
}

func (s *swallower) block(server, client bool) {
	s.blocked[toServer].Store(server)
	s.blocked[toClient].Store(client)
}

// dies ends all connections, as when the proxy is started again.
func (s *swallower) dies() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

func (s *swallower) accept() {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", s.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		s.mu.Lock()
		if s.closed {
			_, _ = client.Close(), server.Close()
		}
		s.conns = append(s.conns, client, server)
		s.mu.Unlock()
		s.running.Go(func() { s.forward(client, server, &s.blocked[toServer]) })
		s.running.Go(func() { s.forward(server, client, &s.blocked[toClient]) })
	}
}

func (s *swallower) forward(from, to net.Conn, blocked *atomic.Bool) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if blocked.Load() {
			if err != nil {
				return // and nobody is told
			}
			continue
		}
		if n > 0 {
			_, _ = to.Write(buf[:n]) // it may have ended, which the other direction sees
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// Case B036 as it is written: a TCP proxy stops to forward. It confirms to each end
// what the other never gets, so TCP cannot tell; the Pings do, which a server of ours
// sends to a client of ours too.
func TestB036HalfOpenThroughAProxy(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	between := newSwallower(t, listener.Addr().String())
	p := startQuick(t, listener, between.listener.Addr().String(), false)
	p.create(deployments, "web")
	p.create(configMaps, "first")
	p.works()
	for _, fault := range []struct {
		name           string
		server, client bool // what does not get through
	}{
		{"both directions", true, true},
		{"only server to client", false, true},
		{"only client to server", true, false},
	} {
		t.Run(fault.name, func(t *testing.T) {
			between.block(fault.server, fault.client)
			defer p.works()
			defer between.dies() // or the attempts that hang in it would
			defer between.block(false, false)
			p.meanwhile("during-" + unfit.ReplaceAllString(fault.name, "-"))
			p.serverNotices()
			p.clientNotices()
		})
	}
}
