// SPDX-License-Identifier: Apache-2.0

package faultproxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/faultproxy"
)

const (
	limit      = 20 * time.Second
	collection = "/api/v1/namespaces/faults/configmaps"
)

// backend is an API server with config maps x, y, z, in whose history since
// version the config map a was added, modified and deleted.
type backend struct {
	faultproxy.Backend
	version string
}

// watch is the path of a watch that sees the history and then waits.
func (b backend) watch() string {
	return collection + "?watch=true&allowWatchBookmarks=true&resourceVersion=" + b.version
}

// eachBackend runs test for the real API server and for a small one, over
// HTTP/2 and HTTP/1.1.
func eachBackend(t *testing.T, test func(t *testing.T, b backend, http1 bool)) {
	for name, open := range map[string]func(*testing.T) backend{"real": realBackend, "small": smallBackend} {
		for _, http1 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/http1=%v", name, http1), func(t *testing.T) { test(t, open(t), http1) })
		}
	}
}

var prepare = sync.OnceValues(func() (string, error) {
	ctx := context.Background() // outlives the test that comes first
	var failures []error
	do := func(method, path, object string) {
		_, err := shared.Do(ctx, method, path, "", []byte(object))
		failures = append(failures, err)
	}
	if err := shared.CreateNamespace(ctx, "faults"); err != nil {
		return "", err
	}
	for _, name := range []string{"x", "y", "z"} {
		do(http.MethodPost, collection, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
	}
	text, err := shared.Get(ctx, collection)
	if err != nil {
		return "", err
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return "", err
	}
	do(http.MethodPost, collection, `{"metadata":{"name":"a"}}`)
	do(http.MethodPut, collection+"/a", `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
	do(http.MethodDelete, collection+"/a", "")
	return list.Metadata.ResourceVersion, errors.Join(failures...)
})

func realBackend(t *testing.T) backend {
	kubetest.Require(t, startErr)
	version, err := prepare()
	require.NoError(t, err)
	return backend{shared, version}
}

func smallBackend(t *testing.T) backend {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path != collection:
			http.NotFound(w, r)
		case query.Get("watch") == "":
			_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"3","continue":"next"},"items":[{"metadata":{"name":"x"}},{"metadata":{"name":"y"}},{"metadata":{"name":"z"}}]}`)
		default:
			for _, event := range []string{"ADDED", "MODIFIED", "DELETED"} {
				_, _ = fmt.Fprintf(w, `{"type":%q,"object":{"metadata":{"namespace":"faults","name":"a"}}}`+"\n", event)
			}
			if query.Get("resourceVersion") == "bookmark" {
				_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`+"\n")
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return backend{&faultproxy.Config{
		Host:            server.URL,
		TLSClientConfig: rest.TLSClientConfig{CAData: certificate(server)},
	}, "3"}
}

func certificate(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// client is a plain HTTP client of a proxy.
type client struct {
	*http.Client
	base, token string
}

func newClient(t *testing.T, p *faultproxy.Proxy, http1 bool) client {
	t.Helper()
	config, err := rest.TLSConfigFor(p.RESTConfig())
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: !http1}
	if http1 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return client{&http.Client{Transport: transport}, "https://" + p.Addr(), p.RESTConfig().BearerToken}
}

// answer is what a client got until the end, or until it was enough.
type answer struct {
	status int
	header http.Header
	lines  []string // of a watch: type and name; else as they are
	err    error    // nil = the orderly end
}

// get reads an answer to its end, or until enough says so of what has come; err
// is context.Canceled then.
func (c client) get(t *testing.T, path string, enough func(answer) bool) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var opened atomic.Int64
	lines, got := make(chan string), make(chan answer, 1)
	go func() {
		defer close(lines)
		got <- c.read(ctx, path, &opened, lines)
	}()
	var seen []string
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				a := <-got
				a.lines = seen
				require.NotErrorIs(t, a.err, context.DeadlineExceeded)
				return a
			}
			seen = append(seen, summary(line))
		case <-tick.C:
			if enough != nil && enough(answer{status: int(opened.Load()), lines: seen}) {
				cancel()
			}
		}
	}
}

func (c client) read(ctx context.Context, path string, opened *atomic.Int64, lines chan<- string) (a answer) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return answer{err: err}
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.Do(request)
	if err != nil {
		return answer{err: err}
	}
	opened.Store(int64(response.StatusCode))
	defer func() { _ = response.Body.Close() }()
	a.status, a.header = response.StatusCode, response.Header
	reader := bufio.NewReader(response.Body)
	for {
		line, err := reader.ReadString('\n')
		if line != "" {
			lines <- line
		}
		if errors.Is(err, io.EOF) {
			return a
		}
		if err != nil {
			a.err = err
			return a
		}
	}
}

func summary(line string) string {
	var event struct {
		Type   string
		Object struct {
			Code     int
			Metadata struct{ Name string }
		}
	}
	switch err := json.Unmarshal([]byte(line), &event); {
	case err != nil || event.Type == "":
		return line
	case event.Object.Code != 0:
		return fmt.Sprint(event.Type, " ", event.Object.Code)
	}
	return event.Type + " " + event.Object.Metadata.Name
}

// userBackend is the API server as the user of a kubeconfig sees it.
func userBackend(t *testing.T, kubeconfig string) faultproxy.Backend {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	return (*faultproxy.Config)(config)
}
