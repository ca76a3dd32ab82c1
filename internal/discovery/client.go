// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"synchronizer"
)

const (
	askTimeout  = 10 * time.Second
	answerBytes = 64 << 10
	saidBytes   = 200 // of an answer that is shown

	delayMin, delayMax = 500 * time.Millisecond, time.Minute
)

// ErrNotTold: the answer is a document of service discovery that does not say
// where clients connect.
var ErrNotTold = errors.New("the answer names no address of a synchronizer")

// Client asks for the address of the server.
type Client struct {
	// API is the address of the API server of the backend: API_URL. Without a
	// scheme it is https.
	API  string
	HTTP *http.Client // must not follow redirects
	// Logger says why there is no answer yet.
	Logger *slog.Logger
}

// ParseAPI reads the value of API_URL. Its error wraps ErrInvalid and does not repeat it.
func ParseAPI(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, fmt.Errorf("%w: it is not an address: write it like https://api.example.com", synchronizer.ErrInvalid)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%w: it must begin with https:// or http://", synchronizer.ErrInvalid)
	}
	return u, nil
}

// Find asks, with back-off, until there is an answer, and gives the address of
// the server: ws or wss. It ends with ctx, or with an error that wraps ErrInvalid
// (API cannot be used) or ErrNotTold.
func (c *Client) Find(ctx context.Context) (string, error) {
	u, err := ParseAPI(c.API)
	if err != nil {
		return "", fmt.Errorf("reading API_URL: %w", err)
	}
	u = u.JoinPath(PathV3)
	// A randomization of 1 gives anything from 0 to twice the interval: full jitter.
	delay := &backoff.ExponentialBackOff{InitialInterval: delayMin / 2, MaxInterval: delayMax / 2, Multiplier: 2, RandomizationFactor: 1}
	delay.Reset()
	for {
		address, err := c.ask(ctx, u)
		if err == nil && u.Scheme == "https" && strings.HasPrefix(address, "ws://") {
			c.Logger.WarnContext(ctx, "the server was found by https and tells an address without encryption: the access key travels in the clear", "server", address)
		}
		if err == nil || errors.Is(err, ErrNotTold) || ctx.Err() != nil {
			return address, err
		}
		pause := delay.NextBackOff()
		c.Logger.WarnContext(ctx, "cannot find the server yet", "error", err, "retryIn", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return "", fmt.Errorf("finding the server: %w", context.Cause(ctx))
		}
	}
}

func (c *Client) ask(ctx context.Context, u *url.URL) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", fmt.Errorf("asking %s where the server is: %w", u.Redacted(), err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "synchronizer")
	response, err := c.HTTP.Do(r)
	if err != nil {
		var fault *url.Error
		if errors.As(err, &fault) {
			err = fault.Err // the rest repeats the URL
		}
		return "", fmt.Errorf("asking %s where the server is: %w", u.Redacted(), err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytes+1))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers HTTP %d", response.StatusCode)
		if to := response.Header.Get("Location"); to != "" {
			err = fmt.Errorf("%w and redirects to %q, which is not followed: set API_URL to that address if it is right", err, to)
		}
	}
	if err == nil && len(text) > answerBytes {
		err = fmt.Errorf("its answer is longer than %d bytes", answerBytes)
	}
	var address string
	if err == nil {
		address, err = parse(text)
	}
	if err != nil {
		return "", fmt.Errorf("asking %s where the server is: %w", u.Redacted(), err)
	}
	return address, nil
}

// parse reads a document of version v2 or v3; unknown members are ignored.
func parse(text []byte) (string, error) {
	var document struct {
		Version  string `json:"version"`
		Response struct {
			Synchronizer string `json:"synchronizer"`
		} `json:"response"`
	}
	err := json.Unmarshal(text, &document)
	if err != nil || document.Version != "v2" && document.Version != "v3" {
		return "", fmt.Errorf("its answer is no service discovery of version v2 or v3: %s", strconv.Quote(string(text[:min(len(text), saidBytes)])))
	}
	address := document.Response.Synchronizer
	if address == "" {
		return "", ErrNotTold
	}
	if !strings.Contains(address, "://") {
		address = "wss://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Scheme != "ws" && u.Scheme != "wss" || u.User != nil {
		return "", fmt.Errorf("the address of the synchronizer in its answer is not like wss://host: %s", strconv.Quote(document.Response.Synchronizer[:min(len(document.Response.Synchronizer), saidBytes)]))
	}
	return address, nil
}
