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
	key    [32]byte        // hash of the access key
	source string          // the connection's id, and the source of what it sends
	since  time.Time       // by the wall clock, for people
	opened time.Time       // with a monotonic reading; ages are since then
	ctx    context.Context // ends with the connection
	end    context.CancelFunc

	seq      uint64                // last given; owned by the goroutine in receive
	rejected []synchronizer.Record // refused by up; owned by it too
	up       *pump[synchronizer.Record]
	down     *pump[synchronizer.Message]
	request  request
	unheard  unheard

	skipAlerts bool    // drop its runtime alerts, and also if
	account    *holder // does not have the feature
}

func (c *connection) id() synchronizer.ClusterID { return c.hello.ClusterID }

// describe is what is said of the connection in ConnectedClients.
func (c *connection) describe() synchronizer.ConnectedClient {
	return synchronizer.ConnectedClient{Hello: c.hello, ConnectionID: c.source, ConnectionTime: c.since}
}

// serve runs the connection until the client leaves or the server stops, and
// flushes what was accepted. Nothing of it runs any more when it returns.
func (s *Server) serve(c *connection, replacements int) {
	ctx := c.ctx
	closed := make(chan struct{})
	stop := context.AfterFunc(s.draining, func() {
		defer close(closed)
		c.request.cancel()
		_ = c.link.Close(statusGoingAway, "server is shutting down")
	})
	log := s.options.Logger.With("account", c.id().Account, "cluster", c.id().Cluster, "connection", c.source)

	if replacements > maxReplacements {
		log.Warn("clients replace each other: two of them claim to be the same cluster", "replacements", replacements, "within", replaceWindow)
	}
	log.Info("client connected", "version", c.hello.SynchronizerVersion)
	c.schedule()
	err := s.announce(ctx, c)
	if err == nil {
		err = c.receive(ctx)
	}

	c.request.cancel()
	newest, survivors := s.registry.remove(c)
	if newest {
		s.metrics.disconnected(c.id())
	}
	for _, older := range survivors {
		log.Warn("an older connection of the cluster has to connect again", "older", older.source)
		_ = older.link.Close(statusGoingAway, "a newer connection has ended")
	}
	flush, end := context.WithTimeout(ctx, s.flushTimeout)
	refused := c.up.flush(flush)
	end()
	if !stop() {
		<-closed
	}
	_ = c.link.Close(statusGoingAway, "")
	c.end() // of what is being published after all
	failed, waiting := c.up.end()
	c.request.wait()
	c.countLost(failed, waiting, refused)
	c.dropUnsent(c.down.end())
	c.dropUnheard()
	log.Info("client disconnected", "reason", err)
}
