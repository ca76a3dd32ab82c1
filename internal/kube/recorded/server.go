// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

// Server serves sets over plain HTTP on loopback.
type Server struct {
	URL string

	http   *http.Server
	ctx    context.Context // ends the watches
	cancel context.CancelFunc
	served chan struct{}
	kinds  map[synchronizer.Kind]*collection
}

// BookmarkInterval is how often a watch gets a bookmark, as an API server does it.
const BookmarkInterval = time.Minute

// collection is a set while it is served.
type collection struct {
	set   *Set
	index map[string]int // by namespace/name
	names []string       // of index, by place

	mu      sync.Mutex
	items   [][]byte
	version int64
	log     []event // of changes, the newest maxLog of them
	dropped int     // events that the log has lost
	wake    chan struct{}
	sent    map[string]time.Time // by namespace/name/resourceVersion
}

// event is one line of a watch.
type event struct {
	version int64
	line    []byte
}

// maxLog bounds the history from which a watch can start; an older
// resourceVersion gets 410.
const maxLog = 20000

// NewServer serves sets, one per kind, until Close. It takes their items over. It
// also serves the definitions of kinds, of which there are none unless a set has
// some.
func NewServer(sets ...*Set) (*Server, error) {
	s := &Server{kinds: map[synchronizer.Kind]*collection{}, served: make(chan struct{})}
	for _, set := range slices.Concat(definitions(), sets) {
		c, err := newCollection(set)
		if err != nil {
			return nil, fmt.Errorf("serving %v: %w", set.Kind, err)
		}
		s.kinds[set.Kind] = c
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	s.URL = "http://" + listener.Addr().String()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(listener)
	}()
	return s, nil
}

func newCollection(set *Set) (*collection, error) {
	version, err := strconv.ParseInt(set.ResourceVersion, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("resourceVersion %q is not a number", set.ResourceVersion)
	}
	c := &collection{
		set: set, items: set.Items, version: version, index: make(map[string]int, len(set.Items)),
		wake: make(chan struct{}), sent: map[string]time.Time{},
	}
	for i, item := range set.Items {
		meta, err := rawjson.Metadata(item)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		name := meta.Namespace + "/" + meta.Name
		c.index[name] = i
		c.names = append(c.names, name)
	}
	if len(c.index) != len(set.Items) {
		return nil, errors.New("two items have the same name")
	}
	return c, nil
}

// RESTConfig is for kube.New.
func (s *Server) RESTConfig() *rest.Config { return &rest.Config{Host: s.URL} }

// Close ends all watches and stops serving.
func (s *Server) Close() {
	s.cancel()
	_ = s.http.Close()
	<-s.served
}

// ServeHTTP answers discovery, LIST, WATCH and GET.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/"); {
	case len(parts) == 1 && (parts[0] == "api" || parts[0] == "apis"):
		s.groups(w, r, parts[0] == "api")
		return
	case len(parts) == 2 && parts[0] == "apis":
		s.group(w, r, parts[1])
		return
	}
	kind, namespace, name, ok := parsePath(r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if kind.Resource == "" {
		s.discover(w, r, kind)
		return
	}
	c := s.kinds[kind]
	query := r.URL.Query()
	switch {
	case c == nil:
		http.NotFound(w, r)
	case name != "":
		c.get(w, namespace, name)
	case query.Get("watch") == "true":
		c.watch(s.ctx, w, r, query.Get("resourceVersion"))
	default:
		c.list(w, query.Get("limit"), query.Get("continue"))
	}
}

// parsePath reads /api/v1/… and /apis/group/version/…
func parsePath(path string) (kind synchronizer.Kind, namespace, name string, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		kind.Version, parts = parts[1], parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		kind.Group, kind.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return kind, "", "", false
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	switch len(parts) {
	case 2:
		name = parts[1]
		fallthrough
	case 1:
		kind.Resource = parts[0]
		fallthrough
	case 0:
		return kind, namespace, name, true
	}
	return kind, "", "", false
}

func (s *Server) discover(w http.ResponseWriter, r *http.Request, group synchronizer.Kind) {
	var resources []string
	for kind, c := range s.kinds {
		if kind.Group == group.Group && kind.Version == group.Version {
			resources = append(resources, fmt.Sprintf(`{"name":%q,"singularName":"","namespaced":%t,"kind":%q,"verbs":["%s"]}`,
				kind.Resource, c.set.Namespaced, c.set.ObjectKind, strings.Join(verbs, `","`)))
		}
	}
	if resources == nil {
		http.NotFound(w, r)
		return
	}
	_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[%s]}`+"\n",
		group.GroupVersion(), strings.Join(resources, ","))
}

func writeStatus(w http.ResponseWriter, code int, reason, message, name string) {
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"details":{"name":%q},"code":%d}`+"\n",
		message, reason, name, code)
}
