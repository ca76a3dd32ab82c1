// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"synchronizer"
)

// postLimit bounds the answer to a Post: a review holds a user and its groups.
const postLimit = 256 << 10

// Post sends one JSON object to a path of the API server ("/apis/…") and returns
// the object that it answers, of at most 256 KiB. It is for reviews, which create
// nothing: a request that the API server refused with 401 is sent once more with
// the token that is in Config.BearerTokenFile now, which client-go would notice
// only after a minute. Options.QPS does not hold for it; ctx is its only time
// limit. Every status but 2xx is an error as those of synchronizer.Cluster.
func (c *Cluster) Post(ctx context.Context, path string, body []byte) ([]byte, error) {
	answer, err := c.post(ctx, path, body, "")
	var refused *statusError
	if errors.As(err, &refused) && refused.status.Code == http.StatusUnauthorized {
		if token := c.tokenNow(); token != "" {
			return c.post(ctx, path, body, token)
		}
	}
	return answer, err
}

// tokenNow is the token in the file; empty if there is no such file.
func (c *Cluster) tokenNow() string {
	file := c.options.Config.BearerTokenFile
	if file == "" {
		return ""
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// post sends the object once; an empty token means the one that client-go puts in.
func (c *Cluster) post(ctx context.Context, path string, body []byte, token string) ([]byte, error) {
	target := *c.base
	target.Path = strings.TrimSuffix(target.Path, "/") + path
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("building request: %w", err)
	}
	request.Header.Set("Accept", plainJSON)
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		c.metrics.requests.WithLabelValues("create", "error").Inc()
		return nil, withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	c.metrics.requests.WithLabelValues("create", strconv.Itoa(response.StatusCode)).Inc()
	if response.StatusCode/100 != 2 {
		failure := readFailure(response)
		return nil, &statusError{failure, failure.err(response.Header)}
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, postLimit+1))
	if err != nil {
		return nil, fmt.Errorf("reading answer: %w", err)
	}
	if len(answer) > postLimit {
		return nil, fmt.Errorf("reading answer: %w: more than %d bytes", synchronizer.ErrTooLarge, postLimit)
	}
	return answer, nil
}
