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
func TestFirstSync(t *testing.T) { overQueues(t, testFirstSync) }

func testFirstSync(t *testing.T, on queueSetup) {
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, services, deployments)
	w.define()
	w.kinds = append(w.kinds, w.widgets())
	w.createMany(configMaps, "settings", 40, 3000)
	w.createMany(services, "web", 5, 0)
	w.createMany(deployments, "web", 10, 0)
	w.createMany(w.widgets(), "part", 20, 0)
	const objects = 40 + 5 + 10 + 20

	b := startChanged(t, t.TempDir(), keyed, on)
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
func TestCreateChangeDelete(t *testing.T) { overQueues(t, testCreateChangeDelete) }

func testCreateChangeDelete(t *testing.T, on queueSetup) {
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments, storageClasses)
	w.define()
	w.kinds = append(w.kinds, w.widgets())
	b := startChanged(t, t.TempDir(), keyed, on)
	// One object that stays: without it an empty store would agree too early.
	w.create(configMaps, "stays")
	client := w.startClient(to(b))
	w.agree(b)

	first := map[synchronizer.Kind]string{}
	w.shows(b, "creation", w.create, func(kind synchronizer.Kind, o *api.Object) bool {
		first[kind] = w.uid(kind, w.name)
		return o != nil && o.UID == first[kind]
	})
	for range 2 {
		before := w.revision.Load()
		w.shows(b, "change", w.change, func(_ synchronizer.Kind, o *api.Object) bool { return revisionOf(t, o) > before })
	}
	w.shows(b, "deletion", w.delete, func(_ synchronizer.Kind, o *api.Object) bool { return !o.DeletedAt.IsZero() })
	w.shows(b, "creation again", w.create, func(kind synchronizer.Kind, o *api.Object) bool {
		return o.DeletedAt.IsZero() && o.UID == w.uid(kind, w.name) && o.UID != first[kind]
	})
	// The other way round nothing may be left over, even if nobody waits.
	for _, kind := range w.kinds {
		w.delete(kind, w.name)
		w.create(kind, w.name)
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

// shows does something to the object of each kind that is called as the world
// is, and waits until the store has it. A change soon after another one is held
// back for a while, so the times that are logged tell of that, too.
func (w *world) shows(b *backend, what string, do func(synchronizer.Kind, ...string), as func(synchronizer.Kind, *api.Object) bool) {
	w.t.Helper()
	start := map[synchronizer.Kind]time.Time{}
	for _, kind := range w.kinds {
		do(kind, w.name)
		start[kind] = time.Now()
	}
	eventually(w.t, what, func() bool {
		for kind, at := range start {
			if as(kind, b.object(w.t, w, kind, w.name)) {
				w.t.Logf("%s of one of %s shows at most %v after the API server had it", what, kind.Resource, time.Since(at).Round(time.Millisecond))
				delete(start, kind)
			}
		}
		return len(start) == 0
	})
}

func revisionOf(t testing.TB, o *api.Object) int64 {
	t.Helper()
	if len(o.Object) == 0 { // a tombstone
		return 0
	}
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
	eventually(t, "the client says that the kind is not there", func() bool {
		is := func(state string) float64 {
			return counter(client.registry, "synchronizer_agent_kind_state", map[string]string{"kind": w.widgets().String(), "state": state})
		}
		return is("not_served")+is("waiting_for_crd") == 1
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
