// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is one running API server with its own etcd. Its methods may be used
// from several goroutines, except Stop, Kill and Restart among each other.
type Cluster struct {
	// Kubeconfig is the path of a kubeconfig with every right; its context is called test.
	Kubeconfig string
	// URL is the API server's https address on 127.0.0.1. It survives Restart.
	URL string
	// Dir holds data, certificates (ca.crt, ca.key) and kubernetes.log.
	Dir string

	binary   string
	settings settings
	config   *rest.Config
	http     *http.Client

	mu      sync.Mutex
	process *process // nil while stopped
}

type settings struct {
	etcdQuota int64
	flags     []string
}

// Option changes how a cluster is started.
type Option func(*settings)

// WithEtcdQuota limits etcd to so many bytes; a full etcd refuses writes.
func WithEtcdQuota(bytes int64) Option {
	return func(s *settings) { s.etcdQuota = bytes }
}

// WithFlags gives kube-apiserver further flags, such as
// --feature-gates=WatchList=false. They win over those it has anyway.
func WithFlags(flags ...string) Option {
	return func(s *settings) { s.flags = append(s.flags, flags...) }
}

// Start starts a fresh API server and stops it when the test ends. If its
// program has not been built the test is skipped, or fails if CI is "true".
func Start(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	cluster, err := StartMain(t.TempDir(), options...)
	Require(t, err)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Errorf("stopping kubernetes: %v", err)
		}
		if t.Failed() {
			t.Logf("end of the API server's log:\n%s", tail(cluster.logFile(), 20))
		}
	})
	return cluster
}

// StartMain starts an API server in dir for a whole package, from TestMain,
// which must call Stop. Data that dir has from an earlier run are used again.
// The error wraps ErrNotBuilt if the program is missing; give it to Require in each test.
func StartMain(dir string, options ...Option) (*Cluster, error) {
	binary, err := Binary(context.Background())
	if err != nil {
		return nil, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolving folder: %w", err)
	}
	c := &Cluster{Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), binary: binary}
	for _, option := range options {
		option(&c.settings)
	}
	if err := c.start(); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Require ends the test unless err, which StartMain returned, is nil: a program
// that was not built skips the test (fails it if CI is "true"), the rest fails it.
func Require(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrNotBuilt) && os.Getenv("CI") != "true":
		t.Skip(err)
	default:
		t.Fatalf("starting kubernetes: %v", err)
	}
}

func (c *Cluster) start() error {
	args := []string{"run", "--dir", c.Dir, "--exit-with-stdin"}
	if c.settings.etcdQuota > 0 {
		args = append(args, fmt.Sprintf("--etcd-quota=%d", c.settings.etcdQuota))
	}
	if len(c.settings.flags) > 0 {
		args = append(append(args, "--"), c.settings.flags...)
	}
	process, url, err := startProcess(c.binary, args, c.logFile())
	if err != nil {
		return fmt.Errorf("starting kubernetes: %w", err)
	}
	c.mu.Lock()
	c.process = process
	c.mu.Unlock()
	if c.URL == "" {
		c.URL = url
	}
	if c.URL != url {
		return fmt.Errorf("starting kubernetes: it came back at %s instead of %s", url, c.URL)
	}
	return nil
}

func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig: %w", err)
	}
	config.QPS = -1
	config.UserAgent = "kubetest"
	c.config = config
	c.http, err = newHTTPClient(config)
	return err
}

// RESTConfig returns a new configuration with every right and no client-side
// rate limit. It stays valid across Restart.
func (c *Cluster) RESTConfig() *rest.Config {
	return rest.CopyConfig(c.config)
}

// EtcdEndpoint returns the http address of etcd's client API (gRPC, and JSON
// under /v3/). It changes with Restart. Empty if it cannot be read.
func (c *Cluster) EtcdEndpoint() string {
	text, err := os.ReadFile(filepath.Join(c.Dir, "etcd-endpoint"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// PID returns the process id of the running server, 0 while it is stopped.
func (c *Cluster) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.cmd.Process.Pid
}

// Stop ends the server in order and waits for it. Stopping twice is no error.
func (c *Cluster) Stop() error {
	return c.end((*process).stop)
}

// Kill ends the server at once, as a crash would (SIGKILL), and waits until the
// process is gone.
func (c *Cluster) Kill() error {
	return c.end((*process).kill)
}

// Restart starts the server again on the same port with the same data and
// credentials, after ending it in order if it runs, and waits until it is ready.
func (c *Cluster) Restart() error {
	if err := c.Stop(); err != nil {
		return err
	}
	return c.start()
}

func (c *Cluster) end(how func(*process) error) error {
	c.mu.Lock()
	process := c.process
	c.process = nil
	c.mu.Unlock()
	if c.http != nil {
		defer c.http.CloseIdleConnections()
	}
	if process == nil {
		return nil
	}
	return how(process)
}

func (c *Cluster) logFile() string { return filepath.Join(c.Dir, "kubernetes.log") }
