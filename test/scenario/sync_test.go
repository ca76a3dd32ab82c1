// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/api"
	"synchronizer/test/kubetest"
)

// Every object is told, asked for and sent exactly once; a client that starts
// again tells all and has to send nothing.
func TestFirstSync(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, services, deployments)
	w.define()
	w.kinds = append(w.kinds, w.widgets())
	w.createMany(configMaps, "settings", 40, 3000)
	w.createMany(services, "web", 5, 0)
	w.createMany(deployments, "web", 10, 0)
	w.createMany(w.widgets(), "part", 20, 0)
	const objects = 40 + 5 + 10 + 20

	b := startBackend(t, t.TempDir(), keyed)
	first := w.startClient(to(b))
	w.agree(b)
	require.Equal(t, objects, first.frames("sent", "NewChecksum"))
	require.Equal(t, objects, first.frames("received", "GetObject"))
	require.Equal(t, objects, first.frames("sent", "PutObject"))
	first.stop()
	require.Equal(t, objects, b.count(t.Context(), w))

	again := w.startClient(to(b))
	eventually(t, "the ingester has confirmed all", func() bool { return b.records("VerifyObject", "confirmed") == objects })
	require.Equal(t, objects, again.frames("sent", "NewChecksum"))
	require.Zero(t, again.frames("received", "GetObject"))
	require.Zero(t, again.frames("sent", "PutObject"))
	w.agree(b)
}

// The life of single objects: each step shows in the store, and the time that it
// took is logged.
func TestCreateChangeDelete(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments, storageClasses)
	w.define()
	w.kinds = append(w.kinds, w.widgets())
	b := startBackend(t, t.TempDir(), keyed)
	// One object that stays: without it an empty store would agree too early.
	w.create(configMaps, "stays")
	client := w.startClient(to(b))
	w.agree(b)

	for _, kind := range []synchronizer.Kind{deployments, configMaps, storageClasses, w.widgets()} {
		t.Run(kind.Resource, func(t *testing.T) {
			shows := func(what string, change func(synchronizer.Kind, ...string), as func(*api.Object) bool) {
				change(kind, w.name)
				start := time.Now()
				require.Eventually(t, func() bool { return as(b.object(t, w, kind, w.name)) }, 5*time.Second, glance/4, what)
				t.Logf("%s shows %v after the API server had it", what, time.Since(start).Round(time.Millisecond))
			}
			alive := func(o *api.Object) bool { return o != nil && o.DeletedAt.IsZero() }
			shows("creation", w.create, alive)
			first := w.uid(kind, w.name)
			require.Equal(t, first, b.object(t, w, kind, w.name).UID)
			for range 2 {
				want := w.revision.Load() + 1
				shows("change", w.change, func(o *api.Object) bool { return alive(o) && revisionOf(t, o) == want })
			}
			shows("deletion", w.delete, func(o *api.Object) bool { return o != nil && !o.DeletedAt.IsZero() })
			shows("creation again", w.create, alive)
			require.NotEqual(t, first, w.uid(kind, w.name))
			require.Equal(t, w.uid(kind, w.name), b.object(t, w, kind, w.name).UID)

			// The other way round nothing may be left over, even if nobody waits.
			w.delete(kind, w.name)
			w.create(kind, w.name)
		})
	}
	w.agree(b)

	row := b.object(t, w, deployments, w.name)
	require.NotContains(t, string(row.Object), "hidden", "values of env are masked")
	require.Contains(t, string(b.object(t, w, w.widgets(), w.name).Object), "9007199254740993", "numbers are exact")

	out := get(t, b, "deployments", "-A", "--cluster", w.name)
	require.Contains(t, out, w.name)
	require.Contains(t, out, "deployments.apps")
	w.delete(deployments, w.name)
	w.agree(b)
	require.NotContains(t, get(t, b, "deployments", "-A", "--cluster", w.name), "deployments.apps")
	client.runs(t)
}

func revisionOf(t *testing.T, o *api.Object) int64 {
	t.Helper()
	var body struct {
		Metadata struct {
			Annotations struct {
				Revision int64 `json:"revision,string"`
			} `json:"annotations"`
		} `json:"metadata"`
	}
	require.NoError(t, json.Unmarshal(o.Object, &body))
	return body.Metadata.Annotations.Revision
}

// get runs "synchronizer get".
func get(t *testing.T, b *backend, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"get", "--server", b.api.Server, "--token-file", b.tokenFile}, args...)...)
	cmd.Env = bareEnvironment()
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// A kind that does not exist disturbs no other, and is found when it comes.
func TestKindComesLater(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments)
	w.kinds = append([]synchronizer.Kind{w.widgets()}, w.kinds...)
	w.createMany(configMaps, "settings", 10, 0)
	b := startBackend(t, t.TempDir(), keyed)
	client := w.startFastClient(to(b))
	w.agree(b)
	eventually(t, "the client says that the kind is not served", func() bool {
		return counter(client.registry, "synchronizer_agent_kind_state", map[string]string{"kind": w.widgets().String(), "state": "not_served"}) == 1
	})
	w.change(configMaps, "settings-001")
	w.agree(b)

	w.define()
	w.create(w.widgets(), "first")
	w.agree(b)
	w.create(w.widgets(), "second")
	w.delete(w.widgets(), "first")
	w.agree(b)
}

// A change of nothing that is carried is not sent, and the comparison does not
// count it as a difference.
func TestChangeOfManagedFieldsOnly(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps)
	w.create(configMaps, "settings")
	b := startBackend(t, t.TempDir(), keyed)
	client := w.startClient(to(b))
	w.agree(b)
	// Another manager applies what is there already: only managedFields and the
	// resourceVersion change.
	_, err := w.cluster.Do(t.Context(), "PATCH", w.path(configMaps, "settings")+"?fieldManager=other", "application/apply-patch+yaml",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"key":"settings"}}`))
	require.NoError(t, err)
	w.create(configMaps, "next")
	eventually(t, "the next object is stored", func() bool { return b.object(t, w, configMaps, "next") != nil })
	require.Equal(t, 2, client.frames("sent", "PutObject"))
	w.agree(b)
}
