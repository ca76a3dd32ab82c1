// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"sync"
	"time"

	"synchronizer"
	"synchronizer/internal/link"
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
	down     *pump[parcel]
	request  request

	skipAlerts bool    // drop its runtime alerts, and also if
	account    *holder // does not have the feature
	unheard    unheard

	phase     phase // of what goes down; guarded by replay.mu
	replaying sync.WaitGroup
	leaving   sync.Once
}

func (c *connection) id() synchronizer.ClusterID { return c.hello.ClusterID }

// describe is what is said of the connection in ConnectedClients.
func (c *connection) describe() synchronizer.ConnectedClient {
	return synchronizer.ConnectedClient{Hello: c.hello, ConnectionID: c.source, ConnectionTime: c.since}
}

// serve runs the connection until the client leaves or the server stops, and
// flushes what was accepted. It returns before; nothing of it runs any more when it
// calls done.
func (s *Server) serve(c *connection, older []*connection, replacements int, done func()) {
	leave := s.welcome(c, older, replacements)
	ended := func(err error) {
		leave(err)
		done()
	}
	if err := s.announce(c.ctx, c); err != nil {
		ended(err)
		return
	}
	c.receive(ended)
}

// welcome does what comes before the first frame of the client is read, but for what
// is published. What it returns does all that comes behind the last one.
func (s *Server) welcome(c *connection, older []*connection, replacements int) (leave func(error)) {
	closed := make(chan struct{})
	stop := context.AfterFunc(s.draining, func() {
		defer close(closed)
		c.request.cancel()
		c.farewell()
	})
	log := s.options.Logger.With("account", c.id().Account, "cluster", c.id().Cluster, "connection", c.source)

	if replacements > maxReplacements {
		log.Warn("clients replace each other: two of them claim to be the same cluster", "replacements", replacements, "within", replaceWindow)
	}
	log.Info("client connected", "version", c.hello.SynchronizerVersion)
	var relieving sync.WaitGroup
	relieving.Go(func() { c.relieve(older) })
	c.schedule()
	return func(err error) {
		c.request.cancel()
		// What a link says that ends is known; whether its client learns why is not.
		_ = c.link.Close(statusGoingAway, "")
		relieving.Wait() // it may give back what this one must give back in its turn
		c.leave()
		if s.registry.remove(c) {
			s.metrics.disconnected(c.id())
		}
		flush, end := context.WithTimeout(c.ctx, s.flushTimeout)
		refused := c.up.flush(flush)
		end()
		if !stop() {
			<-closed
		}
		c.end() // of what is being published after all
		failed, waiting := c.up.end()
		c.request.wait()
		c.countLost(failed, waiting, refused)
		c.dropUnheard()
		log.Info("client disconnected", "reason", err)
	}
}

// relieve ends older connections of the cluster: the newest wins. What they did not
// write goes to this one, before all else.
func (c *connection) relieve(older []*connection) {
	for _, o := range older {
		_ = o.link.Close(statusReplaced, "replaced by a newer connection of the cluster")
		o.leave()
	}
	if c.server.replay != nil {
		c.server.replay.start(c)
	}
}

// farewell closes the link of a server that stops, after what the client was going
// to be told, if it reads that soon.
func (c *connection) farewell() {
	ctx, cancel := context.WithTimeout(c.ctx, c.server.farewellTimeout)
	defer cancel()
	_ = c.down.flush(ctx) // what it did not take is counted by leave
	// What it took may be with the network still. To cut that off would lose it.
	rest := time.Second
	if end, ok := ctx.Deadline(); ok {
		rest = max(rest, time.Until(end))
	}
	_ = link.CloseWithin(c.link, rest, statusGoingAway, "server is shutting down")
}
