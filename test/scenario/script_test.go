// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"synchronizer"
	agentpkg "synchronizer/internal/agent"
	"synchronizer/internal/kube"
)

// script is an API server that lists and gets what the test has put there, and
// whose watches say what the test wants, for faults that no real one can be
// brought to make. It serves configmaps and services in one namespace.
type script struct {
	http  *httptest.Server
	kinds map[string]*scriptedKind // by resource
}

// scriptedNamespace holds all objects of a script.
const scriptedNamespace = "default"

type scriptedKind struct {
	objectKind string
	// watch answers the nth watch, from 1, which asks for what came after from; it
	// says lines until it returns, which ends the stream in order.
	watch func(n int, from string, say func(string), until <-chan struct{})

	mu      sync.Mutex
	version string            // of lists
	objects map[string]string // by name
	asked   []scriptedRequest // lists and watches of the client
}

type scriptedRequest struct {
	verb  string
	query url.Values
	at    time.Time
}

// clientAgent tells the client's requests from those of the comparison.
const clientAgent = "the client"

func newScript(t *testing.T) *script {
	s := &script{kinds: map[string]*scriptedKind{}}
	for resource, objectKind := range map[string]string{"configmaps": "ConfigMap", "services": "Service"} {
		s.kinds[resource] = &scriptedKind{objectKind: objectKind, version: "1", objects: map[string]string{}, watch: untilEnd}
	}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.http.Close)
	return s
}

// untilEnd is a watch on which nothing happens.
func untilEnd(_ int, _ string, _ func(string), until <-chan struct{}) { <-until }

// put makes the state of an object, and returns it as one of a watch.
func (k *scriptedKind) put(name, version string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version = version
	k.objects[name] = fmt.Sprintf(`{"kind":%q,"apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"uid-of-%s","resourceVersion":%q},"data":{"at":%q}}`,
		k.objectKind, name, scriptedNamespace, name, version, version)
	return k.objects[name]
}

func (k *scriptedKind) remove(name, version string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version = version
	delete(k.objects, name)
}

// event is a line of a watch.
func scriptedEvent(typ, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", typ, object)
}

// requests returns what the client has asked for.
func (k *scriptedKind) requests(verb string) []scriptedRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	var found []scriptedRequest
	for _, r := range k.asked {
		if r.verb == verb {
			found = append(found, r)
		}
	}
	return found
}

// froms are the versions that the watches asked from.
func (k *scriptedKind) froms() []string {
	var froms []string
	for _, r := range k.requests("watch") {
		froms = append(froms, r.query.Get("resourceVersion"))
	}
	return froms
}

// ServeHTTP answers the client.
func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/api/v1" {
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[
			{"name":"configmaps","namespaced":true,"kind":"ConfigMap","verbs":["get","list","watch"]},
			{"name":"services","namespaced":true,"kind":"Service","verbs":["get","list","watch"]}]}`)
		return
	}
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "namespaces/"+scriptedNamespace+"/")
	resource, name, _ := strings.Cut(path, "/")
	k := s.kinds[resource]
	switch {
	case k == nil:
		w.WriteHeader(http.StatusNotFound)
	case name != "":
		k.get(w, name)
	case r.URL.Query().Get("watch") == "true":
		n := k.note(r, "watch")
		w.WriteHeader(http.StatusOK)
		flush := http.NewResponseController(w).Flush
		_ = flush()
		k.watch(n, r.URL.Query().Get("resourceVersion"), func(line string) {
			_, _ = io.WriteString(w, line)
			_ = flush()
		}, r.Context().Done())
	default:
		k.note(r, "list")
		k.list(w)
	}
}

func (k *scriptedKind) note(r *http.Request, verb string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.UserAgent() == clientAgent {
		k.asked = append(k.asked, scriptedRequest{verb, r.URL.Query(), time.Now()})
	}
	n := 0
	for _, a := range k.asked {
		if a.verb == verb {
			n++
		}
	}
	return n
}

func (k *scriptedKind) get(w http.ResponseWriter, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	object, ok := k.objects[name]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		object = fmt.Sprintf(`{"kind":"Status","code":404,"reason":"NotFound","details":{"name":%q}}`, name)
	}
	_, _ = io.WriteString(w, object)
}

func (k *scriptedKind) list(w http.ResponseWriter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var items []string
	for _, name := range slices.Sorted(maps.Keys(k.objects)) {
		items = append(items, k.objects[name])
	}
	_, _ = fmt.Fprintf(w, `{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":%s},"items":[%s]}`,
		k.objectKind, strconv.Quote(k.version), strings.Join(items, ","))
}

// scripted is a world whose API server is a script, with a backend and a client.
type scripted struct {
	*world
	*script
	backend *backend
	log     *lines
}

func newScripted(t *testing.T, kinds ...synchronizer.Kind) *scripted {
	s := &scripted{script: newScript(t), backend: startBackend(t, t.TempDir(), keyed), log: newLog(t, "client")}
	reader, err := kube.New(kube.Options{Config: &rest.Config{Host: s.http.URL}})
	require.NoError(t, err)
	t.Cleanup(reader.Close)
	s.world = &world{t: t, name: "scripted", namespace: scriptedNamespace, kinds: kinds, reader: reader}
	return s
}

// run starts the client.
func (s *scripted) run(options kube.Options, clock agentpkg.Clock) *agent {
	options.Config = &rest.Config{Host: s.http.URL, UserAgent: clientAgent}
	c := wiring{kube: options, clock: clock, log: s.log}
	for _, kind := range s.world.kinds {
		c.kinds = append(c.kinds, agentpkg.KindConfig{Kind: kind, Strategy: agentpkg.StrategyCopy})
	}
	return s.startWired(s.backend, c)
}

// said returns the lines of the client's log that have all of the texts.
func (l *lines) said(texts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			found = append(found, line)
		}
	}
	return found
}
