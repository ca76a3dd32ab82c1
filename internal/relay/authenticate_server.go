// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	"synchronizer"
	"synchronizer/internal/link"
)

const (
	// askTimeout bounds one question, to a server the wait for its turn included.
	askTimeout = 5 * time.Second
	// askers is how many questions are under way at a time; more wait.
	askers = 64
	// answerBytes is what is read of an answer, so that its connection can be used
	// again; nobody looks at it.
	answerBytes = 64 << 10
	// mostRedirects is how often an answer may send us on, on the same server.
	mostRedirects = 3
)

// AuthenticationServer asks another service about each client.
type AuthenticationServer struct {
	url               *url.URL
	toQuery, toHeader map[string]string
	client            *http.Client
	turns             chan struct{}
	timeout           time.Duration
}

// NewAuthenticationServer makes one. address may have a query, which is kept;
// toQuery and toHeader say which headers of a client's request become which
// parameter and which header of the question. Proxies are those of the environment.
func NewAuthenticationServer(address string, toQuery, toHeader map[string]string) (*AuthenticationServer, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%w: the URL of the authentication server must be like https://host/path", synchronizer.ErrInvalid)
	}
	a := &AuthenticationServer{
		url: u, toQuery: maps.Clone(toQuery), toHeader: maps.Clone(toHeader),
		turns: make(chan struct{}, askers), timeout: askTimeout,
	}
	a.client = &http.Client{
		Transport: &http.Transport{
			Proxy:                  func(r *http.Request) (*url.URL, error) { return link.ProxyFromEnvironment(r.URL) },
			OnProxyConnectResponse: tunnelRefused,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			MaxConnsPerHost:        askers, MaxIdleConnsPerHost: askers, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: answerBytes, ForceAttemptHTTP2: true,
		},
		CheckRedirect: stayOnServer,
	}
	return a, nil
}

// stayOnServer keeps what a client has shown from being sent to another server.
func stayOnServer(r *http.Request, before []*http.Request) error {
	if len(before) > mostRedirects || r.URL.Scheme != before[0].URL.Scheme || r.URL.Host != before[0].URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// Close gives back idle connections.
func (a *AuthenticationServer) Close() { a.client.CloseIdleConnections() }

// Authenticate agrees if the server answers 200. Every other answer is a refusal;
// none within 5 s means that nobody could decide.
func (a *AuthenticationServer) Authenticate(ctx context.Context, claim Claim) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	select {
	case a.turns <- struct{}{}:
		defer func() { <-a.turns }()
	case <-ctx.Done():
		return fmt.Errorf("asking the authentication server %s: %d questions wait for an answer: %w", a.url.Host, askers, context.Cause(ctx))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.question(claim.Header), nil)
	if err != nil {
		return errors.New("asking the authentication server: its URL cannot be used") // err repeats it, with what the client has shown
	}
	for from, to := range a.toHeader {
		if text := claim.Header.Get(from); text != "" {
			r.Header.Set(to, text)
		}
	}
	answer, err := a.client.Do(r)
	if err != nil {
		return fmt.Errorf("asking the authentication server %s: %w", a.url.Host, withoutAnswer(err))
	}
	// Only the status counts. The rest is read for the sake of the connection.
	_, _ = io.CopyN(io.Discard, answer.Body, answerBytes)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		refused := fmt.Errorf("%w: the authentication server answered HTTP %d", synchronizer.ErrUnauthorized, answer.StatusCode)
		found := hints(claim, nil)
		if to, err := answer.Location(); err == nil && answer.StatusCode/100 == 3 {
			found = append(found, "it redirects to "+to.Scheme+"://"+to.Host+", which is not followed: configure that URL if it is right")
		}
		return because(refused, found)
	}
	return nil
}

// errAnswer stands for faults whose texts quote an answer. Whoever is asked by
// mistake may repeat the question, with the key.
var errAnswer = errors.New("what it answers is no HTTP that can be read (it is not shown: it may repeat what the client has shown)")

// withoutAnswer is why a question was not answered, without the URL, and without
// what came instead of an answer: only faults are told that cannot hold it.
func withoutAnswer(err error) error {
	var fault *url.Error
	if errors.As(err, &fault) {
		err = fault.Err // the rest repeats the URL
	}
	var (
		network     net.Error
		certificate *tls.CertificateVerificationError
		plain       tls.RecordHeaderError
		alert       tls.AlertError
	)
	if errors.As(err, &network) || errors.As(err, &certificate) || errors.As(err, &plain) || errors.As(err, &alert) {
		return err
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, http.ErrSchemeMismatch, synchronizer.ErrInvalid} {
		if errors.Is(err, known) {
			return err
		}
	}
	return errAnswer
}

// tunnelRefused tells of a proxy that does not let us through.
func tunnelRefused(_ context.Context, proxy *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: fmt.Errorf("the proxy %s answered HTTP %d", proxy.Host, answer.StatusCode)}
}

// question is the URL for a client.
func (a *AuthenticationServer) question(header http.Header) string {
	u := *a.url
	query := u.Query()
	for from, to := range a.toQuery {
		if text := header.Get(from); text != "" {
			query.Set(to, text)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}
