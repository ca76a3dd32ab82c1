// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/api"
	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
	"synchronizer/internal/link/stock"
	"synchronizer/test/kubetest"
)

var (
	secrets = synchronizer.Kind{Version: "v1", Resource: "secrets"}
	pods    = synchronizer.Kind{Version: "v1", Resource: "pods"}
)

// canaries are values that must not leave the cluster, in any form.
type canaries struct {
	t    *testing.T
	list []string
}

// next makes one.
func (c *canaries) next() string {
	value := "canary-" + uuid.NewString()
	c.list = append(c.list, value)
	return value
}

// absent fails the test if a text has one of them, as it is or in base64.
func (c *canaries) absent(where string, text []byte) {
	c.t.Helper()
	require.NotEmpty(c.t, text, where)
	for i, value := range c.list {
		require.False(c.t, bytes.Contains(text, []byte(value)), "canary %d is in %s", i, where)
		require.False(c.t, bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte(value)))), "canary %d is in %s, in base64", i, where)
	}
}

// containers is a pod template's list with one secret in its environment.
func (c *canaries) containers(name string) []any {
	return []any{map[string]any{"name": name, "image": "registry.example.org/main:1", "env": []any{map[string]any{"name": "TOKEN", "value": c.next()}}}}
}

// apply does what kubectl apply does, which leaves a copy in an annotation.
func (c *canaries) apply(w *world, object map[string]any) {
	c.t.Helper()
	text, err := json.Marshal(object)
	require.NoError(c.t, err)
	file := filepath.Join(c.t.TempDir(), "object.json")
	require.NoError(c.t, os.WriteFile(file, text, 0o600))
	_, err = w.cluster.Kubectl(c.t.Context(), "-n", w.namespace, "apply", "-f", file)
	require.NoError(c.t, err)
}

// secret, deployment and pod hold values in all places that are masked.
func (c *canaries) secret(revision int) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "password", "annotations": map[string]any{"revision": fmt.Sprint(revision)}},
		"data": map[string]any{"a": base64.StdEncoding.EncodeToString([]byte(c.next()))}, "stringData": map[string]any{"b": c.next()},
	}
}

func (c *canaries) deployment(revision int) map[string]any {
	labels := map[string]any{"app": "web"}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "annotations": map[string]any{"revision": fmt.Sprint(revision)}},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": c.containers("main"), "initContainers": c.containers("first")},
		}},
	}
}

func (c *canaries) pod() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "alone"},
		"spec": map[string]any{"containers": c.containers("main"), "initContainers": c.containers("first")},
	}
}

// attach adds an ephemeral container, which has a way of its own.
func (c *canaries) attach(w *world, name string) {
	c.t.Helper()
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"ephemeralContainers": c.containers(name)}})
	require.NoError(c.t, err)
	_, err = w.cluster.Do(c.t.Context(), http.MethodPatch, w.path(pods, "alone")+"/ephemeralcontainers", "application/strategic-merge-patch+json", text)
	require.NoError(c.t, err)
}

// TestB100SecretValues: values of secrets and of environments are in no frame
// (whole, patch, answer), no row, no file of the backend and no log, at the level
// debug.
func TestB100SecretValues(t *testing.T) {
	t.Setenv("KS_LOGGER_LEVEL", "debug")
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, secrets, deployments, pods)
	c := &canaries{t: t}
	c.apply(w, c.secret(1))
	c.apply(w, c.deployment(1))
	c.apply(w, c.pod())
	c.attach(w, "one")

	frames := c.frames(w)
	require.Contains(t, frames, "XXXXXX")
	c.rows(w)
	// The cluster has what was looked for, so that the test means something.
	for _, kind := range w.kinds {
		text, err := w.cluster.Get(t.Context(), w.path(kind, ""))
		require.NoError(t, err)
		require.Contains(t, string(text), "last-applied-configuration")
	}
}

// frames lets a client tell a server of the field of the objects: by answers, by
// patches whose baseline and change both have values, and whole after that.
func (c *canaries) frames(w *world) string {
	c.t.Helper()
	field := stock.NewServer(c.t)
	log := newLog(c.t, "client")
	running := w.startLogged(target{address: strings.TrimPrefix(field.URL, "http://")}, log)
	session := field.Next()
	names := map[synchronizer.Kind]string{secrets: "password", deployments: "web", pods: "alone"}
	ask := func(kind synchronizer.Kind, id string) {
		c.t.Helper()
		require.NoError(c.t, session.Send(fmt.Appendf(nil,
			`{"ResourceVersion":0,"BaseObject":"","Depth":3,"Event":4,"Kind":{"Group":%q,"Version":%q,"Resource":%q,"AdditionalProperties":null},"MsgId":%q,"Name":%q,"Namespace":%q,"AdditionalProperties":null}`,
			kind.Group, kind.Version, kind.Resource, id, names[kind], w.namespace)))
		session.Wait(func(f *stock.Frame) bool {
			return f.Is(stock.PutObject, kind, w.namespace, names[kind]) && f.MsgId == id
		})
	}
	for kind, name := range names {
		session.WaitFor(stock.NewChecksum, kind, w.namespace, name)
		ask(kind, "first-"+kind.Resource)
	}
	c.apply(w, c.secret(2))
	c.apply(w, c.deployment(2))
	c.attach(w, "two")
	for kind, name := range names {
		session.WaitFor(stock.PatchObject, kind, w.namespace, name)
		ask(kind, "second-"+kind.Resource)
	}
	running.stop()
	var all strings.Builder
	for _, f := range session.Received() {
		all.Write(f.Raw)
	}
	c.absent("the frames", []byte(all.String()))
	c.absent("the client's log", []byte(log.tail(1<<20)))
	return all.String()
}

// startLogged is startClient with a log that the test reads.
func (w *world) startLogged(to target, log *lines) *agent {
	w.t.Helper()
	c, _, err := config.LoadClient(config.Env{ConfigDir: w.configFile(to)})
	require.NoError(w.t, err)
	p := app.NewProcess(log)
	opened, err := client.Open(w.t.Context(), p, c, kube.LoadOptions{Flag: w.kubeconfig}, false)
	require.NoError(w.t, err)
	a := &agent{registry: p.Registry}
	a.done, a.stop = background(w.t, "client", opened.Run)
	return a
}

// rows lets a client fill a backend.
func (c *canaries) rows(w *world) {
	c.t.Helper()
	dir := c.t.TempDir()
	clientLog, backendLog := newLog(c.t, "client"), newLog(c.t, "backend")
	var variables config.Env
	for key, value := range map[string]string{
		"SYNCHRONIZER_BACKEND_DATADIR": dir, "SYNCHRONIZER_BACKEND_LISTEN": "127.0.0.1:0",
		"SYNCHRONIZER_API_LISTEN": "127.0.0.1:0", "SYNCHRONIZER_BACKEND_HEALTHPORT": "0",
	} {
		variables = variables.With(key, value)
	}
	settings, _, err := config.LoadUp(variables)
	require.NoError(c.t, err)
	process := app.NewProcess(backendLog)
	opened, err := server.Open(c.t.Context(), process, settings)
	require.NoError(c.t, err)
	b := &backend{clients: opened.ClientsAddress(), registry: process.Registry, ready: opened.Ready, api: newAPI(c.t, opened.APIAddress(), opened.Secrets.APIToken)}
	_, b.stop = background(c.t, "backend", opened.Run)
	running := w.startLogged(to(b), clientLog)
	w.agree(b)
	c.apply(w, c.secret(3))
	c.apply(w, c.deployment(3))
	c.attach(w, "three")
	w.agree(b)

	rows := 0
	query := url.Values{"account": {server.LocalAccount}, "cluster": {w.name}, "full": {"true"}, "limit": {"1000"}}
	require.NoError(c.t, b.api.EachPage(c.t.Context(), query, func(page []api.Object) error {
		for i := range page {
			rows++
			c.absent("a row", page[i].Object)
		}
		return nil
	}))
	require.GreaterOrEqual(c.t, rows, 3)
	running.stop()
	b.stop()
	c.absent("the client's log", []byte(clientLog.tail(1<<20)))
	c.absent("the backend's log", []byte(backendLog.tail(1<<20)))
	require.Contains(c.t, clientLog.tail(1<<20)+backendLog.tail(1<<20), "level=")
	require.NoError(c.t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && len(text) > 0 {
			c.absent(filepath.Base(path), text)
		}
		return err
	}))
}
