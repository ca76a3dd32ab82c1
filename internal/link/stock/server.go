// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// Server is a server in the field. It accepts everybody and gives the frames to
// the test, which plays the backend.
type Server struct {
	// URL of the server, http://….
	URL string

	t        testing.TB
	sessions chan *Session

	mu     sync.Mutex
	status int // refuse upgrades with it
	text   string
}

// Session is a client that has connected.
type Session struct {
	*session
	// Header is that of its upgrade request.
	Header http.Header
	conn   net.Conn
}

// NewServer listens until the test ends.
func NewServer(t testing.TB) *Server {
	s := &Server{t: t, sessions: make(chan *Session, 100)}
	server := httptest.NewUnstartedServer(s)
	server.Config.ConnContext = withConn
	server.Start()
	s.URL = server.URL
	t.Cleanup(server.Close)
	return s
}

// Refuse makes it answer upgrades with an HTTP status and a text; 0 ends that.
func (s *Server) Refuse(status int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.text = status, text
}

// Next waits up to a minute for the next client.
func (s *Server) Next() *Session {
	s.t.Helper()
	select {
	case session := <-s.sessions:
		return session
	case <-time.After(time.Minute):
		require.FailNow(s.t, "no client connected")
		return nil
	}
}

// Connected is the number of clients that connected and were not taken by Next.
func (s *Server) Connected() int { return len(s.sessions) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	status, text := s.status, s.text
	s.mu.Unlock()
	for _, name := range []string{"X-API-KEY", "X-API-ACCOUNT", "X-API-CLUSTER"} {
		if status == 0 && r.Header.Get(name) == "" {
			status = http.StatusUnauthorized
		}
	}
	if status == 0 && r.Header.Get("X-SYNCHRONIZER-VERSION") == "invalid" {
		status = http.StatusFailedDependency
	}
	if status != 0 {
		http.Error(w, text, status)
		return
	}
	session := &Session{session: newSession(s.t), Header: r.Header.Clone(), conn: connOf(r)}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{OnPingReceived: session.onPing})
	if err != nil {
		return // it has answered
	}
	session.ws = ws
	gate := make(chan struct{})
	close(gate)
	s.t.Cleanup(session.Close)
	go session.read(gate, nil)
	s.sessions <- session
}

// Cut ends the network connection without a close frame, as a server in the
// field does at SIGTERM (22).
func (s *Session) Cut() {
	_ = s.conn.Close() // it may have ended already
	s.Close()
}
