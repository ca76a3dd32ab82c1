// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	jsonType  = "application/json"
	applyType = "application/apply-patch+yaml"
	// patience is how long a helper waits for something that the API server does
	// on its own time, such as serving a new kind.
	patience = 20 * time.Second
	// interval is how often it looks.
	interval = 20 * time.Millisecond
)

// newHTTPClient returns a client with its own connections, so that ending the
// cluster can close them (those of client-go's shared transports stay open).
func newHTTPClient(config *rest.Config) (*http.Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(config.CAData) {
		return nil, errors.New("reading kubeconfig: no certificate authority in it")
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}}, nil
}

// Get returns the bytes that the API server answers for a path such as
// /api/v1/namespaces. An answer other than 2xx is an error that the predicates
// of k8s.io/apimachinery/pkg/api/errors understand.
func (c *Cluster) Get(ctx context.Context, path string) ([]byte, error) {
	return c.Do(ctx, http.MethodGet, path, "", nil)
}

// Do sends one request as administrator; see Get for the result. An empty
// contentType means JSON.
func (c *Cluster) Do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType == "" {
		contentType = jsonType
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", jsonType)
	request.Header.Set("Authorization", "Bearer "+c.config.BearerToken)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading answer to %s %s: %w", method, path, err)
	}
	if response.StatusCode/100 == 2 {
		return answer, nil
	}
	var status metav1.Status
	if err := json.Unmarshal(answer, &status); err != nil || status.Kind != "Status" {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return nil, fmt.Errorf("%s %s: %w", method, path, &apierrors.StatusError{ErrStatus: status})
}

// post sends object as JSON and decodes the answer into result unless that is nil.
func (c *Cluster) post(ctx context.Context, path string, object, result any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	answer, err := c.Do(ctx, http.MethodPost, path, jsonType, body)
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal(answer, result)
}

// waitFor calls done until it reports true or fails, at most patience long.
func waitFor(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ok, err := done(ctx)
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(interval):
		}
	}
}
