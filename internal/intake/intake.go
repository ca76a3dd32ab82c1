// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
)

// Outlet takes reports towards the backend. Both methods are called from many
// goroutines at the same time.
type Outlet interface {
	// Report hands one message to the outbound worker and returns when that has
	// it, or, with a spool, when it is on disk. It may block; ctx ends with the
	// request, at most 30 s after it was let in, and with the process. The
	// message's body belongs to the outlet from then on. ErrDisconnected says
	// that the backend is away, ErrTooLarge that the message can never be sent;
	// after any other error the caller may try again.
	Report(ctx context.Context, msg synchronizer.Message) error

	// Connected is false while reports cannot be taken because the link is known
	// to be down or reconnecting; with a spool, only while that is full. It must
	// not block.
	Connected() bool
}

// APIServer is asked who a caller is and what it may do.
type APIServer interface {
	// Post sends one JSON object to a path of the API server, with the client's
	// own credentials, and returns the object that it answers. Every status but 2xx
	// is an error. At most eight calls run at once; ctx bounds each.
	Post(ctx context.Context, path string, body []byte) ([]byte, error)
}

// Resource is one kind that may be posted.
type Resource struct {
	Kind synchronizer.Kind
	// Patch says that it comes by PUT and leaves as a PatchObject that holds the
	// whole body (strategy patch); else by POST, as a PutObject (strategy copy).
	Patch bool
}

// Options are what an Endpoint is made of. Outlet is required, and APIServer
// unless Auth.Disabled.
type Options struct {
	Resources []Resource
	Outlet    Outlet
	Auth      Auth
	APIServer APIServer
	// Ready is nil once the process has started (not: once it is connected, for
	// a client without a backend must be reached to answer 429). Nil: always.
	Ready      func() error
	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
}

// limits are the design's numbers; tests make them smaller.
type limits struct {
	header, read, write, idle, grace time.Duration
	// drain is how long after a refusal the rest of the request is thrown away, so
	// that the caller reads the answer before the connection breaks.
	drain time.Duration
	body  int64
}

func defaultLimits() limits {
	return limits{
		header: 5 * time.Second, read: 30 * time.Second, write: 35 * time.Second, idle: 120 * time.Second,
		grace: time.Second, drain: 500 * time.Millisecond, body: 4 << 20,
	}
}

// Endpoint is the HTTP endpoint. Make it with New.
type Endpoint struct {
	options   Options
	limits    limits
	routes    routes
	gate      *gate // nil: everybody may come in
	admission admission
	metrics   *metrics
	log       *slog.Logger
	refusals  refusals
	// connections holds one token for each open connection.
	connections chan struct{}
}

// New checks the options and warns if authentication is off.
func New(options Options) (*Endpoint, error) {
	if options.Outlet == nil {
		return nil, errors.New("HTTP endpoint without an outlet")
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Endpoint{options: options, limits: defaultLimits(), routes: newRoutes(options.Resources), log: options.Logger, connections: make(chan struct{}, maxConnections)}
	e.refusals.log = e.log
	var err error
	if e.metrics, err = newMetrics(e, options.Registerer); err != nil {
		return nil, err
	}
	if options.Auth.Disabled {
		e.log.Warn("the HTTP endpoint believes every caller: " + envDisabled + " is set")
		return e, nil
	}
	e.gate, err = newGate(options.APIServer, options.Auth, e.metrics)
	return e, err
}

// ServeHTTP answers one request.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(e.connections) > busyConnections {
		w.Header().Set("Connection", "close") // idle ones make room
	}
	switch r.URL.Path {
	case "/healthz":
		return
	case "/readyz":
		if e.options.Ready == nil {
			return
		}
		if err := e.options.Ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		}
		return
	}
	x := exchange{Endpoint: e, w: w, r: r}
	defer x.rescue()
	x.serve()
}

// exchange is one request on its way through the doors.
type exchange struct {
	*Endpoint
	w        http.ResponseWriter
	r        *http.Request
	resource string // once it is known to be one of ours
	caller   string // who the API server says it is
}

func (x *exchange) serve() {
	resource, refused := x.routes.find(x.r.Method, x.r.URL.Path)
	if refused != nil {
		x.refuse(refused)
		return
	}
	x.resource = resource.Kind.Resource
	if refused := x.authorize(resource.Kind); refused != nil {
		x.refuse(refused)
		return
	}
	if refused := x.take(resource); refused != nil {
		x.refuse(refused)
		return
	}
	x.metrics.request(x.resource, http.StatusAccepted)
	x.w.WriteHeader(http.StatusAccepted)
}

func (x *exchange) authorize(kind synchronizer.Kind) *refusal {
	if x.gate == nil {
		return nil
	}
	token, ok := bearer(x.r.Header)
	if !ok {
		return unauthorized("send `Authorization: Bearer <service account token>`")
	}
	v, err := x.gate.decide(x.r.Context(), token, kind)
	if err != nil {
		return &refusal{status: http.StatusServiceUnavailable, text: "the API server cannot say now who the caller is and what it may do", retryAfter: "5", cause: err}
	}
	x.caller = v.user
	switch {
	case v.status == http.StatusUnauthorized:
		return unauthorized("the token is not valid for audience " + x.gate.auth.Audience)
	case v.status == http.StatusForbidden:
		return &refusal{status: v.status, text: "the caller may not create " + kind.Resource + "." + kind.Group + " in namespace " + x.gate.auth.Namespace}
	}
	return nil
}

// take lets the request in, reads it and hands it on. The slot is given back
// when it returns, in whatever way.
func (x *exchange) take(resource Resource) *refusal {
	if !x.options.Outlet.Connected() {
		return unavailable("the backend is not connected")
	}
	leave, ok := x.admission.enter(resource.Kind.Resource == alerts)
	if !ok {
		return unavailable("too many requests at once")
	}
	defer leave()
	// net/http's read timeout ends with the body; this is for what comes then, and
	// early enough that an answer can still be written.
	ctx, cancel := context.WithTimeout(x.r.Context(), x.limits.read)
	defer cancel()
	body, refused := readBody(x.w, x.r, x.limits.body)
	if refused != nil {
		return refused
	}
	msg, err := newMessage(resource, body)
	if err != nil {
		return &refusal{status: http.StatusBadRequest, text: err.Error()}
	}
	err = x.options.Outlet.Report(ctx, msg)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, synchronizer.ErrTooLarge):
		return &refusal{status: http.StatusRequestEntityTooLarge, text: "the report is larger than the backend takes", cause: err}
	case errors.Is(err, synchronizer.ErrDisconnected):
		return unavailable("the backend is not connected")
	}
	return &refusal{status: http.StatusServiceUnavailable, text: "the report could not be handed on in time", retryAfter: "60", cause: err}
}

// rescue answers 500 for a fault of ours; the slot was given back before.
func (x *exchange) rescue() {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p)
	default:
		x.log.Error("panic in the HTTP endpoint", "panic", p, "stack", string(debug.Stack()))
		x.refuse(&refusal{status: http.StatusInternalServerError, text: "internal error"})
	}
}

// bearer gives the token of the one Authorization header, if there is one that
// could be valid.
func bearer(h http.Header) (string, bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxTokenBytes {
		return "", false
	}
	// The characters of RFC 6750; nothing else can be a token.
	return token, !strings.ContainsFunc(token, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/=", r))
	})
}
