// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
)

// errSilent ends a request on which nothing was heard for too long.
var errSilent = errors.New("nothing was heard from the API server for too long")

// answer is the body of a successful response. Reading it fails with the
// context's error or errSilent where one of them is the reason.
type answer struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	length int64 // -1 if unknown
	limit  time.Duration
	timer  *time.Timer
	bytes  prometheus.Counter
}

// get sends one GET. silence is how long nothing may be heard, before the answer
// and in it. The caller must close the answer.
func (c *Cluster) get(ctx context.Context, verb, path string, query url.Values, silence time.Duration) (*answer, error) {
	return c.getAs(ctx, plainJSON, verb, path, query, silence)
}

// getAs is get for an answer of another form than plain JSON.
func (c *Cluster) getAs(ctx context.Context, accept, verb, path string, query url.Values, silence time.Duration) (*answer, error) {
	a, response, err := c.send(ctx, call{method: http.MethodGet, verb: verb, path: path, query: query, accept: accept, silence: silence})
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		failure := readFailure(response)
		a.Close()
		return nil, &statusError{failure, failure.err(response.Header)}
	}
	a.timer.Stop()
	return a, nil
}

// call is one request.
type call struct {
	method, verb string // verb is for the metrics
	path         string
	query        url.Values
	accept       string
	contentType  string // of the body
	body         []byte // nil: none
	silence      time.Duration
}

// send sends a request, whatever the status of its answer, which the caller must
// close. While the caller has not stopped its timer, nothing may be silent for long.
func (c *Cluster) send(ctx context.Context, k call) (*answer, *http.Response, error) {
	if err := c.limiter.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, fmt.Errorf("waiting for the request limit: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a := &answer{ctx: ctx, cancel: cancel, limit: k.silence, bytes: c.metrics.bytes.WithLabelValues(k.verb)}
	a.timer = time.AfterFunc(k.silence, func() { cancel(errSilent) })
	target := *c.base
	target.Path = strings.TrimSuffix(target.Path, "/") + k.path
	target.RawQuery = k.query.Encode()
	var body io.Reader
	if k.body != nil {
		body = bytes.NewReader(k.body)
	}
	request, err := http.NewRequestWithContext(ctx, k.method, target.String(), body)
	if err != nil {
		a.Close()
		return nil, nil, fmt.Errorf("building request: %w", err)
	}
	request.Header.Set("Accept", k.accept)
	if k.body != nil {
		request.Header.Set("Content-Type", k.contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		c.metrics.requests.WithLabelValues(k.verb, "error").Inc()
		err = a.because(withoutURL(err))
		a.Close()
		return nil, nil, err
	}
	c.metrics.requests.WithLabelValues(k.verb, strconv.Itoa(response.StatusCode)).Inc()
	a.body, a.length = response.Body, response.ContentLength
	return a, response, nil
}

// statusError keeps what the API server said beside what it means.
type statusError struct {
	status status
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// withoutURL drops the address in front of an error, which is in the log once.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// because gives the reason why a request was cut off, if it was.
func (a *answer) because(err error) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	return err
}

// Read reads the body. The time between two calls does not count as silence.
func (a *answer) Read(p []byte) (int, error) {
	a.timer.Reset(a.limit)
	n, err := a.body.Read(p)
	a.timer.Stop()
	a.bytes.Add(float64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		err = a.because(err)
	}
	return n, err
}

// Close ends the request.
func (a *answer) Close() {
	a.timer.Stop()
	a.cancel(context.Canceled)
	if a.body != nil {
		_ = a.body.Close()
	}
}

// path is the collection of a kind, or of a kind in a namespace.
func path(kind synchronizer.Kind, namespace string) string {
	p := groupPath(kind)
	if namespace != "" {
		p += "/namespaces/" + namespace
	}
	return p + "/" + kind.Resource
}

func groupPath(kind synchronizer.Kind) string {
	if kind.Group == "" {
		return "/api/" + kind.Version
	}
	return "/apis/" + kind.Group + "/" + kind.Version
}

// isSegment tells whether s can be one segment of a path: names come from the
// backend, and none may lead to another object.
func isSegment(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/%\\?#") && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func checkKind(kind synchronizer.Kind) error {
	if !isSegment(kind.Version) || !isSegment(kind.Resource) || kind.Group != "" && !isSegment(kind.Group) {
		return fmt.Errorf("%w: %q is not a name that an API server can have", synchronizer.ErrKindNotServed, kind)
	}
	return nil
}
