// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"time"

	"synchronizer/internal/config"
	"synchronizer/internal/discovery"
	"synchronizer/internal/relay"
	"synchronizer/internal/telemetry"
)

// openCertificate reads the certificate of the listener for clients, if it has one.
func (b *Backend) openCertificate() (err error) {
	pair := b.config.Backend.TLS
	if pair.CertPath == "" {
		return nil
	}
	b.certificate, err = telemetry.LoadCertificate(pair.CertPath, pair.KeyPath, "backend.tls", b.process.Logger, b.process.Registerer("server"))
	return err
}

// authenticator decides who may connect, as backend.authenticationServer or
// backend.accessKeys says; validation has refused both, and neither where others
// can reach the listener.
func (b *Backend) authenticator() (relay.Authenticator, error) {
	backend := &b.config.Backend
	switch a := backend.AuthenticationServer; {
	case a.URL != "":
		server, err := relay.NewAuthenticationServer(a.URL, a.HeaderToQueryParamMapping, a.HeaderToHeaderMapping)
		if err != nil {
			return nil, err
		}
		b.authentication = server
		return server, nil
	case backend.AccessKeys == config.AccessKeysStore:
		return relay.AccessKeys{Credentials: b.store, Keys: b.store}, nil
	}
	return relay.Anonymous{}, nil
}

// serveClients serves clients and service discovery until ctx ends. Connections of
// clients are hijacked, so the relay ends them, not http.Server.
func (b *Backend) serveClients(ctx context.Context) error {
	told := b.config.Backend.ServiceDiscovery
	handler := discovery.Handler(discovery.Addresses{
		Synchronizer:      b.config.Backend.PublicURL,
		EventReceiverHTTP: told.EventReceiverHTTP, EventReceiverWS: told.EventReceiverWS,
		Gateway: told.Gateway, APIServer: told.APIServer, Metrics: told.Metrics, Storage: told.Storage,
	}, b.relay)
	if b.certificate != nil {
		return telemetry.ServeTLS(ctx, b.clients, handler, time.Second, b.certificate)
	}
	return telemetry.Serve(ctx, b.clients, handler, time.Second)
}

// ClientsURL is what clients put into inCluster.serverUrl: with TLS the public
// address if there is one, since the certificate is for that.
func (b *Backend) ClientsURL() string {
	switch {
	case b.certificate == nil:
		return "ws://" + b.ClientsAddress()
	case b.config.Backend.PublicURL != "":
		return b.config.Backend.PublicURL
	}
	return "wss://" + b.ClientsAddress()
}
