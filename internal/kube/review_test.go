// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"synchronizer"
)

// TestPost sends one object as it is, with the client's credentials.
func TestPost(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "Bearer own" || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+string(body))
	}))
	defer server.Close()
	c := newCluster(t, &rest.Config{Host: server.URL + "/prefix", BearerToken: "own"})
	answer, err := c.Post(t.Context(), "/apis/x", []byte(`{"a":1}`))
	require.NoError(t, err)
	require.Equal(t, `POST /prefix/apis/x {"a":1}`, string(answer))
}

func TestPostErrors(t *testing.T) {
	status, text, requests := 0, "", 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	defer server.Close()
	c := newCluster(t, &rest.Config{Host: server.URL})
	post := func(code int, body string) error {
		status, text, requests = code, body, 0
		_, err := c.Post(t.Context(), "/apis/x", nil)
		return err
	}
	require.ErrorIs(t, post(403, ""), synchronizer.ErrForbidden)
	require.Equal(t, 1, requests)
	require.ErrorIs(t, post(401, ""), synchronizer.ErrForbidden)
	require.Equal(t, 1, requests, "there is no other token")
	var after *synchronizer.RetryAfterError
	require.ErrorAs(t, post(429, ""), &after)
	require.Equal(t, 7*time.Second, after.After)
	require.Error(t, post(500, ""))
	require.ErrorIs(t, post(200, strings.Repeat("x", postLimit+1)), synchronizer.ErrTooLarge)
	require.NoError(t, post(200, strings.Repeat("x", postLimit)))
	server.Close()
	require.Error(t, post(200, ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Post(ctx, "/apis/x", nil)
	require.ErrorIs(t, err, context.Canceled)
}

// TestPostWithRotatedToken replaces the file of the client's own token; the API
// server refuses the old one from then on, and no call fails.
func TestPostWithRotatedToken(t *testing.T) {
	var current atomic.Value
	current.Store("one")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+current.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("one\n"), 0o600))
	c := newCluster(t, &rest.Config{Host: server.URL, BearerTokenFile: file})
	for _, token := range []string{"one", "two", "three"} {
		require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
		current.Store(token)
		_, err := c.Post(t.Context(), "/apis/x", []byte("{}"))
		require.NoError(t, err, token)
	}
}
