// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"

	"synchronizer/internal/telemetry"
)

const (
	// maxHeaderBytes holds a token of maxTokenBytes and what proxies add.
	maxHeaderBytes = 32 << 10
)

// Listen opens the endpoint's port; its error names the key to change.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	return telemetry.Listen(ctx, address, "httpEndpoint.serverPort")
}

// Serve answers requests on l, which it closes, until ctx ends (nil). Requests
// that wait for the outlet then end with 503. Call it once.
func (e *Endpoint) Serve(ctx context.Context, l net.Listener) error {
	if e.gate != nil {
		defer context.AfterFunc(ctx, e.gate.stop)()
	}
	server := e.server(ctx)
	l = newLimitedListener(l, e.connections)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving the HTTP endpoint on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.limits.grace)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		_ = server.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the HTTP endpoint on %s: %w", l.Addr(), err)
	}
	return nil
}

func (e *Endpoint) server(ctx context.Context) *http.Server {
	return &http.Server{
		Handler:           e,
		ReadHeaderTimeout: e.limits.header,
		ReadTimeout:       e.limits.read,
		WriteTimeout:      e.limits.write,
		IdleTimeout:       e.limits.idle,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.New(lines{e.log}, "", 0),
		// "OPTIONS *" has no path and gets 400 like all of its kind.
		DisableGeneralOptionsHandler: true,
	}
}
