// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"synchronizer"
)

const (
	// maxReviews is how many requests for a decision the API server sees at once.
	maxReviews = 8
	// maxWaiting is how many callers may wait for one; the rest gets 503 at once.
	maxWaiting = 512
	// reviewTimeout bounds the wait and both reviews. Callers give up after 5 s.
	reviewTimeout = 4 * time.Second

	allowedFor = 10 * time.Second
	// Refusals are remembered for a shorter time, so that a Role that was just
	// created counts soon and a hiccup of the API server passes.
	refusedFor = 2 * time.Second
)

// verdict is what the API server decided on a caller: allowed (status 0), 401 or 403.
type verdict struct {
	status int
	user   string // for the log
}

// gate asks the API server who may come in. It keeps its decisions for some
// seconds, under a hash of the token, and errors never.
type gate struct {
	server  APIServer
	auth    Auth
	metrics *metrics
	timeout time.Duration
	slots   chan struct{}
	waiting atomic.Int64
	memory  *memory

	// life ends with the process: a review serves all who wait for it, so it does
	// not end with the request that began it.
	life context.Context
	stop context.CancelFunc
}

func newGate(server APIServer, auth Auth, m *metrics) (*gate, error) {
	if auth.Namespace == "" {
		return nil, ErrNoNamespace
	}
	if server == nil {
		return nil, errors.New("HTTP endpoint without an API server to check its callers")
	}
	if auth.Audience == "" {
		auth.Audience = defaultAudience
	}
	g := &gate{server: server, auth: auth, metrics: m, timeout: reviewTimeout, slots: make(chan struct{}, maxReviews), memory: newMemory(time.Now)}
	g.life, g.stop = context.WithCancel(context.Background())
	return g, nil
}

var errBusy = errors.New("too many callers wait for a decision")

// decide tells whether the owner of token may create objects of the kind. An
// error means that nobody knows.
func (g *gate) decide(ctx context.Context, token string, kind synchronizer.Kind) (verdict, error) {
	k := keyOf(token, kind)
	v, flight, leader, ok := g.memory.find(k)
	if ok {
		g.count(v, nil, "cache")
		return v, nil
	}
	if !leader {
		return g.join(ctx, flight)
	}
	v, err := g.lead(k, flight, token, kind)
	g.count(v, err, "review")
	return v, err
}

// join waits for a decision that another request has asked for.
func (g *gate) join(ctx context.Context, f *flight) (verdict, error) {
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > maxWaiting {
		return verdict{}, errBusy
	}
	select {
	case <-f.done:
		g.count(f.verdict, f.err, "cache")
		return f.verdict, f.err
	case <-ctx.Done():
		return verdict{}, ctx.Err()
	}
}

// lead asks for a decision, for itself and for all who join meanwhile.
func (g *gate) lead(k key, f *flight, token string, kind synchronizer.Kind) (v verdict, err error) {
	err = errors.New("the review was interrupted") // if what follows panics
	defer func() { g.memory.settle(k, f, v, err) }()
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > maxWaiting {
		err = errBusy
		return v, err
	}
	ctx, cancel := context.WithTimeout(g.life, g.timeout)
	defer cancel()
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-ctx.Done():
		err = fmt.Errorf("waiting for other reviews: %w", ctx.Err())
		return v, err
	}
	v, err = g.review(ctx, token, kind)
	return v, err
}

func (g *gate) review(ctx context.Context, token string, kind synchronizer.Kind) (verdict, error) {
	user, ok, err := g.authenticate(ctx, token)
	switch {
	case err != nil:
		return verdict{}, err
	case !ok:
		return verdict{status: http.StatusUnauthorized}, nil
	}
	v := verdict{user: user.Username[:min(len(user.Username), maxUserBytes)]}
	allowed, err := g.mayCreate(ctx, user, kind)
	switch {
	case err != nil:
		return verdict{}, err
	case !allowed:
		v.status = http.StatusForbidden
	}
	return v, nil
}

func (g *gate) count(v verdict, err error, source string) {
	result := "allowed"
	switch {
	case err != nil:
		result = "error"
	case v.status == http.StatusUnauthorized:
		result = "unauthenticated"
	case v.status == http.StatusForbidden:
		result = "forbidden"
	}
	g.metrics.reviews.WithLabelValues(result, source).Inc()
}

// maxUserBytes bounds the name that is kept for the log.
const maxUserBytes = 320

// key stands for a token and what its owner wants; no token is kept.
type key [sha256.Size]byte

func keyOf(token string, kind synchronizer.Kind) key {
	// Neither a token nor a group can hold a line break.
	return sha256.Sum256([]byte(token + "\n" + kind.Group + "\n" + kind.Resource))
}
