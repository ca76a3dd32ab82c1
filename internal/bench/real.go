// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"synchronizer"
	"synchronizer/internal/kube"
	"synchronizer/internal/kube/recorded"
	"synchronizer/internal/rawjson"
)

// real is a real API server with objects in a namespace of the benchmark's own,
// which closing removes. Deployments have no replicas, so that a cluster with
// controllers makes no pods of them.
type real struct {
	file      string
	config    *rest.Config
	http      *http.Client
	namespace string
	// collections are what is removed before the namespace, for API servers
	// without the controller that empties one: "/apis/apps/v1", "deployments".
	collections [][2]string
	names       []string
	about       Data
	round       int // of changes

	mu   sync.Mutex
	sent map[version]time.Time
	last string // resourceVersion of the last answer
}

const (
	// writers is how many requests that write run at a time.
	writers = 16
	// cleanupTimeout bounds removing the objects, also after Ctrl-C.
	cleanupTimeout = 2 * time.Minute
)

// openReal makes Deployments.
func openReal(ctx context.Context, o SourceOptions, bar *Progress) (_ *real, err error) {
	r, err := openNamespace(ctx, o.Kubeconfig, [2]string{"/apis/apps/v1", "deployments"})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := r.create(ctx, o, bar); err != nil {
		return nil, err
	}
	bodies, err := r.bodies(ctx)
	if err != nil {
		return nil, err
	}
	r.about, err = describe(r.place(), bodies)
	return r, err
}

// openNamespace makes an empty namespace; collections are what will be in it.
func openNamespace(ctx context.Context, kubeconfig string, collections ...[2]string) (_ *real, err error) {
	r := &real{
		namespace: "bench-" + strings.ToLower(rand.Text()[:8]), collections: collections,
		sent: map[version]time.Time{},
	}
	if r.file, err = filepath.Abs(kubeconfig); err != nil {
		return nil, fmt.Errorf("resolving kubeconfig: %w", err)
	}
	if r.config, _, err = kube.LoadConfig(kube.LoadOptions{Flag: r.file}); err != nil {
		return nil, err
	}
	if r.http, err = rest.HTTPClientFor(r.config); err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	namespace := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, r.namespace)
	if err := r.post(ctx, "/api/v1/namespaces", namespace); err != nil {
		err = fmt.Errorf("making the benchmark's namespace (the user of the kubeconfig must be allowed to): %w", err)
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// post creates one object.
func (r *real) post(ctx context.Context, path, manifest string) error {
	_, err := r.do(ctx, http.MethodPost, path, "application/json", []byte(manifest))
	return err
}

// collection is the path of a collection of the namespace.
func (r *real) collection(c [2]string) string {
	return c[0] + "/namespaces/" + r.namespace + "/" + c[1]
}

// place says which API server it is without its address.
func (r *real) place() string {
	if u, err := url.Parse(r.base()); err == nil {
		if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
			return "real API server on the same machine"
		}
	}
	return "real API server on another machine"
}

// What a manifest is changed in: its namespace and its replicas.
var (
	manifestNamespace = regexp.MustCompile(`"namespace":"team-\d+"`)
	manifestReplicas  = regexp.MustCompile(`"replicas":\d+`)
)

func (r *real) create(ctx context.Context, o SourceOptions, bar *Progress) error {
	bar.Start("creating", o.Objects)
	defer bar.Stop()
	g, creating := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for item := range recorded.Generate(recorded.Deployments, o.Seed, o.Objects) {
		if creating.Err() != nil {
			break
		}
		r.names = append(r.names, item.Name)
		manifest := manifestNamespace.ReplaceAll(item.Manifest, []byte(`"namespace":"`+r.namespace+`"`))
		manifest = manifestReplicas.ReplaceAll(manifest, []byte(`"replicas":0`))
		g.Go(func() error {
			_, err := r.do(creating, http.MethodPost, r.path(""), "application/json", manifest)
			bar.Add(1)
			if err != nil {
				return fmt.Errorf("creating Deployments: %w", err)
			}
			return nil
		})
	}
	return errors.Join(g.Wait(), ctx.Err())
}

// bodies reads the objects back as the API server gives them.
func (r *real) bodies(ctx context.Context) (bodies [][]byte, err error) {
	cluster, err := kube.New(kube.Options{Config: r.config})
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	_, err = cluster.List(ctx, recorded.Deployments, func(o synchronizer.Object) error {
		if o.Namespace == r.namespace {
			bodies = append(bodies, bytes.Clone(o.Body))
		}
		return nil
	})
	return bodies, err
}

func (r *real) kubeconfig() string   { return r.file }
func (r *real) namespaces() []string { return []string{r.namespace} }
func (r *real) data() Data           { return r.about }

func (r *real) path(name string) string {
	path := "/apis/apps/v1/namespaces/" + r.namespace + "/deployments"
	if name != "" {
		path += "/" + name
	}
	return path
}

// change patches an annotation of one object after the other. A change counts
// from the API server's answer, so the time of the API server is not measured.
func (r *real) change(ctx context.Context, n int, rate float64) error {
	g, changing := errgroup.WithContext(ctx)
	g.SetLimit(min(writers, len(r.names))) // the changes of one object in order
	start := time.Now()
	for i := 0; i < n && changing.Err() == nil; i++ {
		due := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if err := wait(changing, time.Until(due)); err != nil {
			break
		}
		name := r.names[i%len(r.names)]
		g.Go(func() error {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"benchmark.synchronizer/change":"%d.%d"}}}`, r.round, i)
			answer, err := r.do(changing, http.MethodPatch, r.path(name), "application/merge-patch+json", []byte(patch))
			at := time.Now()
			if err != nil {
				return fmt.Errorf("changing Deployments: %w", err)
			}
			meta, err := rawjson.Metadata(answer)
			if err != nil {
				return fmt.Errorf("changing Deployments: reading the answer: %w", err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.sent[version{r.namespace, name, meta.ResourceVersion}] = at
			r.last = meta.ResourceVersion
			return nil
		})
	}
	return errors.Join(g.Wait(), ctx.Err())
}

func (r *real) renew() error {
	r.round++
	return nil
}

func (r *real) changed(v version) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.sent[v]
	return at, ok
}

func (r *real) newest() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// close removes the objects and the namespace, even after ctx has ended.
func (r *real) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	defer r.http.CloseIdleConnections()
	var err error
	remove := func(path string) {
		_, failed := r.do(ctx, http.MethodDelete, path, "", nil)
		var status *statusError
		if errors.As(failed, &status) && status.code == http.StatusNotFound {
			return
		}
		err = errors.Join(err, failed)
	}
	for _, c := range r.collections {
		remove(r.collection(c))
	}
	remove("/api/v1/namespaces/" + r.namespace)
	if err != nil {
		return fmt.Errorf("removing the benchmark's namespace (remove it with `kubectl delete namespace %s`): %w", r.namespace, err)
	}
	return nil
}

// statusError is an answer of the API server that is no success.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.code, e.message) }

// base is the address of the API server without a slash at its end.
func (r *real) base() string {
	base := strings.TrimSuffix(r.config.Host, "/")
	if !strings.Contains(base, "://") {
		base = "https://" + base
	}
	return base
}

const maxAnswer = 64 << 20

func (r *real) do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.base()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var status struct{ Message string }
		if json.Unmarshal(answer, &status) != nil || status.Message == "" {
			status.Message = resp.Status
		}
		return nil, &statusError{resp.StatusCode, status.Message}
	}
	return answer, nil
}
