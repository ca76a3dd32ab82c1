// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"time"

	"synchronizer"
)

// connection is one client that is connected here.
type connection struct {
	server *Server
	link   synchronizer.Link
	hello  synchronizer.Hello
	source string // the connection's id, and the source of what it sends
	since  time.Time
	ctx    context.Context // ends with the connection

	seq  uint64 // last given; owned by the goroutine in receive
	up   *pump[synchronizer.Record]
	down *pump[synchronizer.Message]
}

func (c *connection) id() synchronizer.ClusterID { return c.hello.ClusterID }

// describe is what is said of the connection in ConnectedClients.
func (c *connection) describe() synchronizer.ConnectedClient {
	return synchronizer.ConnectedClient{Hello: c.hello, ConnectionID: c.source, ConnectionTime: c.since}
}

// serve runs the connection until the client leaves or the server stops, and
// flushes what was accepted.
func (s *Server) serve(c *connection) {
	cancelled := make(chan struct{})
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	c.ctx = ctx
	stop := context.AfterFunc(s.draining, func() {
		defer close(cancelled)
		_ = c.link.Close(statusGoingAway, "server is shutting down")
	})

	if n := s.registry.add(c, c.since); n > maxReplacements {
		s.options.Logger.Warn("clients replace each other: two of them claim to be the same cluster",
			"account", c.id().Account, "cluster", c.id().Cluster, "replacements", n, "within", replaceWindow)
	}
	s.options.Logger.Info("client connected", "account", c.id().Account, "cluster", c.id().Cluster,
		"connection", c.source, "version", c.hello.SynchronizerVersion)
	s.announce(ctx, c)

	err := c.receive(ctx)

	if s.registry.remove(c) {
		s.metrics.disconnections.WithLabelValues(c.id().Account, c.id().Cluster).Inc()
	}
	flush, end := context.WithTimeout(ctx, flushTimeout)
	if e := c.up.flush(flush); e != nil {
		s.options.Logger.Warn("publishing what the client sent last", "account", c.id().Account, "cluster", c.id().Cluster, "error", e)
	}
	end()
	if !stop() {
		<-cancelled
	}
	_ = c.link.Close(statusGoingAway, "")
	s.options.Logger.Info("client disconnected", "account", c.id().Account, "cluster", c.id().Cluster,
		"connection", c.source, "reason", err)
}
