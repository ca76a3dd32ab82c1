// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"synchronizer"
)

// Options are what the API needs; all must be set but Events and Keys.
type Options struct {
	Reader      synchronizer.Reader
	Credentials synchronizer.Credentials
	Events      synchronizer.Events  // nil: there is no route for them
	Keys        synchronizer.Keyring // nil: access keys cannot be managed
	Ready       func() error
	Logger      *slog.Logger
}

// server holds the routes' dependencies.
type server struct{ Options }

// New makes the handler of all routes.
func New(o Options) http.Handler {
	s := &server{o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	routes := http.NewServeMux()
	routes.HandleFunc("GET /api/v1/clusters", s.route(s.listClusters))
	routes.HandleFunc("GET /api/v1/clusters/{account}/{cluster}", s.route(s.getCluster))
	routes.HandleFunc("GET /api/v1/objects", s.route(s.listObjects))
	routes.HandleFunc("GET /api/v1/objects/{account}/{cluster}/{group}/{version}/{resource}/{namespace}/{name}", s.route(s.getObject))
	if o.Events != nil {
		routes.HandleFunc("GET /api/v1/events", s.route(s.listEvents))
	}
	if o.Keys != nil {
		routes.HandleFunc("GET /api/v1/accesskeys", s.route(s.listKeys))
		routes.HandleFunc("POST /api/v1/accesskeys", s.route(s.createKey))
		routes.HandleFunc("DELETE /api/v1/accesskeys/{id}", s.route(s.revokeKey))
	}
	routes.HandleFunc("/", s.route(func(_ http.ResponseWriter, r *http.Request) error {
		return &Problem{Status: http.StatusNotFound, Title: "no such route", Detail: r.Method + " " + r.URL.Path}
	}))
	mux.Handle("/", s.authenticated(routes))
	return mux
}

// Problem is an error as the API gives it (RFC 9457).
type Problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail,omitempty"`
}

func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}

// route turns the error of a handler into a problem.
func (s *server) route(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.writeError(w, r, err)
		}
	}
}

func (s *server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	var p *Problem
	switch {
	case errors.As(err, &p):
	case errors.Is(err, synchronizer.ErrNotFound):
		p = &Problem{Status: http.StatusNotFound, Title: "not found", Detail: err.Error()}
	case errors.Is(err, synchronizer.ErrInvalid):
		p = &Problem{Status: http.StatusBadRequest, Title: "bad request", Detail: err.Error()}
	case errors.Is(err, context.Canceled):
		return // the reader has left
	default:
		s.Logger.Error("answering a request", "path", r.URL.Path, "error", err)
		p = &Problem{Status: http.StatusInternalServerError, Title: "internal error", Detail: "see the server's log"}
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// tokenKey is where authenticated puts the token into the request's context.
type tokenKey struct{}

// authenticated lets only requests with a valid token through.
func (s *server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			s.writeError(w, r, &Problem{Status: http.StatusUnauthorized, Title: "unauthorized", Detail: "an API token is needed: Authorization: Bearer <token>"})
			return
		}
		token, err := s.Credentials.APIToken(r.Context(), synchronizer.HashSecret(strings.TrimSpace(secret)))
		if errors.Is(err, synchronizer.ErrNotFound) {
			err = &Problem{Status: http.StatusUnauthorized, Title: "unauthorized", Detail: "the API token is unknown or was revoked"}
		}
		if err != nil {
			s.writeError(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tokenKey{}, token)))
	})
}
