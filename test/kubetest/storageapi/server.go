// SPDX-License-Identifier: Apache-2.0

package storageapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"synchronizer/test/kubetest"
)

// What is served.
const (
	Group        = "spdx.softwarecomposition.kubescape.io"
	Version      = "v1beta1"
	groupVersion = Group + "/" + Version
	root         = "/apis/" + groupVersion
	// frontProxy is the name in kube-apiserver's certificate towards us.
	frontProxy = "front-proxy-client"
)

// Server is the API server. Its methods may be used from several goroutines.
type Server struct {
	http    *httptest.Server
	trusted *x509.CertPool
	done    chan struct{} // closed by Close
	once    sync.Once

	mu       sync.Mutex
	version  uint64 // of the last write
	kinds    map[string]*kind
	changed  chan struct{} // closed and replaced whenever watches shall look again
	down     bool
	requests []Request
}

// New starts a server with no objects, makes cluster's API server pass on the
// group to it, and ends both when the test ends. A cluster has one at a time.
func New(t testing.TB, cluster *kubetest.Cluster) *Server {
	t.Helper()
	authority, err := os.ReadFile(filepath.Join(cluster.Dir, "proxy-ca.crt"))
	if err != nil {
		t.Fatalf("starting storage API: %v", err)
	}
	s := &Server{trusted: x509.NewCertPool(), done: make(chan struct{}), kinds: newKinds(), changed: make(chan struct{})}
	s.trusted.AppendCertsFromPEM(authority)
	s.http = httptest.NewUnstartedServer(s)
	s.http.EnableHTTP2 = true
	s.http.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that kube-apiserver gives up
	s.http.StartTLS()
	t.Cleanup(s.Close)
	if err := cluster.RegisterAPI(t.Context(), Group, Version, s.http.Listener.Addr().String()); err != nil {
		t.Fatalf("starting storage API: %v", err)
	}
	t.Cleanup(func() { // before Close
		service := fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"%s.%s"}}`, Version, Group)
		// A cluster that the test has stopped has nothing to forget.
		_ = cluster.Delete(context.WithoutCancel(t.Context()), service)
	})
	return s
}

// Close ends all watches and the server. kube-apiserver answers 503 for the
// group then, as it does when the pod of an aggregated API is gone.
func (s *Server) Close() {
	s.once.Do(func() {
		close(s.done)
		s.http.CloseClientConnections()
		s.http.Close()
	})
}

// SetDown answers everything with 503 and ends the watches, or ends that.
// kube-apiserver notices on its own time (seconds) and then answers 503 itself,
// for up to half a minute longer than this server does.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	s.wake()
}

// ServeHTTP answers kube-apiserver; only the server itself calls it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		answerError(w, apierrors.NewServiceUnavailable("the storage is down, as the test wants it"))
		return
	}
	if document, ok := discovery(r.URL.Path); ok {
		answer(w, http.StatusOK, document)
		return
	}
	if err := s.authenticate(r); err != nil {
		answerError(w, apierrors.NewUnauthorized(err.Error()))
		return
	}
	request, ok := s.readRequest(r)
	if !ok {
		answerError(w, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "no such path", 0, false))
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	s.mu.Unlock()
	handle := map[string]func(http.ResponseWriter, *http.Request, Request){
		"get": s.get, "list": s.list, "watch": s.watch, "create": s.create, "update": s.update, "delete": s.delete,
	}[request.Verb]
	if handle == nil {
		answerError(w, apierrors.NewMethodNotSupported(groupResource(request.Resource), request.Verb))
		return
	}
	handle(w, r, request)
}

// authenticate believes in a user name only from kube-apiserver.
func (s *Server) authenticate(r *http.Request) error {
	if len(r.TLS.PeerCertificates) == 0 {
		return fmt.Errorf("no client certificate")
	}
	certificate := r.TLS.PeerCertificates[0]
	if certificate.Subject.CommonName != frontProxy {
		return fmt.Errorf("certificate is of %q", certificate.Subject.CommonName)
	}
	_, err := certificate.Verify(x509.VerifyOptions{Roots: s.trusted, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err == nil && r.Header.Get("X-Remote-User") == "" {
		err = fmt.Errorf("no X-Remote-User")
	}
	return err
}

// readRequest reads verb and object from method, path and query; false if there
// is no such path.
func (s *Server) readRequest(r *http.Request) (Request, bool) {
	request := Request{
		Query: r.URL.Query(), User: r.Header.Get("X-Remote-User"), Groups: r.Header.Values("X-Remote-Group"),
	}
	rest, ok := strings.CutPrefix(r.URL.Path, root+"/")
	if !ok {
		return request, false
	}
	parts := strings.Split(rest, "/")
	if parts[0] == "namespaces" && len(parts) >= 3 {
		request.Namespace, parts = parts[1], parts[2:]
	}
	request.Resource = parts[0]
	if len(parts) > 1 {
		request.Name = parts[1]
	}
	k := s.kinds[request.Resource] // the map never changes
	if k == nil || len(parts) > 2 || request.Namespace != "" && !k.namespaced || request.Name != "" && request.Namespace == "" && k.namespaced {
		return request, false
	}
	request.Verb = verb(r.Method, request)
	return request, true
}

func verb(method string, request Request) string {
	watch := request.Query.Get("watch")
	switch {
	case method == http.MethodGet && (watch == "1" || strings.EqualFold(watch, "true")):
		return "watch"
	case method == http.MethodGet && request.Name == "":
		return "list"
	case method == http.MethodPost && request.Name == "":
		return "create"
	case method == http.MethodPut && request.Name != "":
		return "update"
	case method == http.MethodDelete && request.Name == "":
		return "deletecollection"
	}
	return strings.ToLower(method)
}

func groupResource(resource string) schema.GroupResource {
	return schema.GroupResource{Group: Group, Resource: resource}
}

func answer(w http.ResponseWriter, code int, document any) {
	text, err := json.Marshal(document)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n'))
}

func answerError(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	answer(w, int(status.Code), status)
}
