// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"synchronizer/internal/kube"
)

// patience is how long something may take that takes milliseconds.
const patience = 20 * time.Second

// leastPrivilege is an API server with one ConfigMap, as somebody sees it who
// has only the documented Role: 403 on everything but list and watch in
// namespace kubescape with a field selector that names the ConfigMap.
type leastPrivilege struct {
	mu      sync.Mutex
	version int
	object  []byte        // nil: none
	changed chan struct{} // closed and replaced with every change
	refused []string      // requests answered with 403
	allowed map[string]int
}

func newLeastPrivilege(t *testing.T) (*leastPrivilege, string) {
	t.Helper()
	s := &leastPrivilege{version: 100, changed: make(chan struct{}), allowed: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *leastPrivilege) put(document string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	var object map[string]any
	_ = json.Unmarshal(configMap("namespace-filters", document), &object)
	object["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(s.version)
	object["metadata"].(map[string]any)["uid"] = "0b5a4a3c-7b0f-4c57-9a44-3a54d1c2a001"
	s.object, _ = json.Marshal(object)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *leastPrivilege) state() (version int, object []byte, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.object, s.changed
}

func (s *leastPrivilege) requests() (allowed map[string]int, refused []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]int{"list": s.allowed["list"], "watch": s.allowed["watch"]}, s.refused
}

func (s *leastPrivilege) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	verb := "list"
	if query.Get("watch") == "true" {
		verb = "watch"
	}
	w.Header().Set("Content-Type", "application/json")
	permitted := r.Method == http.MethodGet &&
		r.URL.Path == "/api/v1/namespaces/kubescape/configmaps" &&
		query.Get("fieldSelector") == "metadata.name=namespace-filters"
	s.mu.Lock()
	if permitted {
		s.allowed[verb]++
	} else {
		s.refused = append(s.refused, r.Method+" "+r.URL.String())
	}
	s.mu.Unlock()
	if !permitted {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"configmaps is forbidden"}`)
		return
	}
	version, object, changed := s.state()
	if verb == "list" {
		_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, object)
		return
	}
	from, err := strconv.Atoi(query.Get("resourceVersion"))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusOK)
	for {
		if version > from {
			from = version
			_, _ = fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", object)
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		version, object, changed = s.state()
	}
}

// TestB055LeastPrivilege: the filter loads and follows changes although there is
// no right to GET, to list without the name, or to look into other namespaces.
func TestB055LeastPrivilege(t *testing.T) {
	server, url := newLeastPrivilege(t)
	server.put(excluding("a"))
	cluster, err := kube.New(kube.Options{Config: &rest.Config{Host: url}})
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	r := run(t, cluster.Select(kube.ConfigMap("kubescape", "namespace-filters")))

	// The filter loads.
	require.Eventually(t, r.isReady, patience, time.Millisecond)
	require.False(t, r.live.Namespace("a"))
	require.True(t, r.live.Namespace("b"))

	// It follows changes.
	server.put(excluding("b"))
	require.Eventually(t, func() bool { return !r.live.Namespace("b") }, patience, time.Millisecond)
	require.True(t, r.live.Namespace("a"))
	server.put("not a document")
	require.Eventually(t, func() bool { return r.log.count(t, rejected) == 1 }, patience, time.Millisecond)
	require.False(t, r.live.Namespace("b"))
	server.put(excluding("c"))
	require.Eventually(t, func() bool { return r.live.Namespace("b") }, patience, time.Millisecond)
	require.Equal(t, 3, r.log.count(t, updated))

	// No GET, no unfiltered list, no other namespace: nothing else was even asked.
	allowed, refused := server.requests()
	require.Empty(t, refused)
	require.Equal(t, map[string]int{"list": 1, "watch": 1}, allowed)
}
