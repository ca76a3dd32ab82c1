// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"synchronizer/internal/kube"
)

// apiServer is an API server that accepts one token of ours and answers reviews
// as it is told.
type apiServer struct {
	*httptest.Server
	mu             sync.Mutex
	own            string // the token that it accepts from us
	tokens, access int    // statuses of the reviews; 0 = never answers
	asked          int    // with our good token
}

func (s *apiServer) set(own string, tokens, access int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own, s.tokens, s.access = own, tokens, access
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	own, status := s.own, s.tokens
	if r.Header.Get("Authorization") == "Bearer "+own {
		s.asked++
	}
	s.mu.Unlock()
	answer := json.RawMessage(valid)
	if r.URL.Path == accessReviews {
		answer = json.RawMessage(`{"allowed":true}`)
		s.mu.Lock()
		status = s.access
		s.mu.Unlock()
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer "+own:
		status = http.StatusUnauthorized
	case status == 0:
		// net/http sees that the caller went away once the body was read.
		_ = json.NewDecoder(r.Body).Decode(&struct{}{})
		<-r.Context().Done()
		return
	}
	w.WriteHeader(status)
	if status == http.StatusCreated {
		_ = json.NewEncoder(w).Encode(map[string]any{"status": answer})
	}
}

// TestB058 is case B058: faults of the client's own credentials and of the API
// server are no fault of the caller.
func TestB058(t *testing.T) {
	s := &apiServer{own: "one", tokens: 201, access: 201}
	s.Server = httptest.NewServer(s)
	defer s.Close()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("one"), 0o600))
	cluster, err := kube.New(kube.Options{Config: &rest.Config{Host: s.URL, BearerTokenFile: file}})
	require.NoError(t, err)
	defer cluster.Close()
	w := open(t, func(o *Options, _ *limits) { o.APIServer = cluster })
	w.gate.timeout = time.Second
	n := 0
	post := func(token string) int {
		n++
		return w.post(alertPath, token, report("RuntimeAlerts", "a")).status
	}
	require.Equal(t, 202, post("first"))

	// The file has a new token, and the API server refuses the old one: it is used
	// with the next review, not after a minute.
	require.NoError(t, os.WriteFile(file, []byte("two"), 0o600))
	s.set("two", 201, 201)
	require.Equal(t, 202, post("second"))

	// Our own token is refused for good: no fault of the caller either.
	s.set("three", 201, 201)
	require.Equal(t, 503, post("third"))

	for _, c := range []struct{ tokens, access int }{{500, 201}, {429, 201}, {0, 201}, {403, 201}, {201, 500}, {201, 0}, {201, 429}, {201, 403}} {
		s.set("two", c.tokens, c.access)
		require.Equal(t, 503, post("third"), "%+v", c)
		require.Equal(t, 200, w.do("GET", "/healthz", "", nil).status)
		require.Equal(t, 200, w.do("GET", "/readyz", "", nil).status)
		// Not remembered as denied, and never open.
		s.set("two", 201, 201)
		before := s.count()
		require.Equal(t, 202, post("third"))
		require.Equal(t, before+2, s.count(), "asked again")
		w.gate.memory = newMemory(time.Now)
	}
	require.Len(t, w.outlet.messages(), 2+8)
}

func (s *apiServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}
