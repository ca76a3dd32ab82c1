// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"

	"synchronizer"
)

// keepAlive publishes who is connected: the newest connection of each cluster,
// since older ones are not told anything, and nobody as well.
func (s *Server) keepAlive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.publishTimeout)
	defer cancel()
	open := s.registry.newestOfAll()
	clients := make([]synchronizer.ConnectedClient, len(open))
	for i, c := range open {
		clients[i] = c.describe()
	}
	err := publishList(ctx, s, clients, func(some []synchronizer.ConnectedClient) synchronizer.Message {
		return synchronizer.Message{Event: synchronizer.EventConnectedClients, Clients: &synchronizer.ConnectedClients{
			ServerName: s.options.ServerName, Clients: some, KeepAlive: s.options.Now(),
		}}
	})
	if err != nil && ctx.Err() != context.Canceled {
		s.options.Logger.Warn("publishing who is connected", "clients", len(clients), "error", err)
	}
}
