// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"synchronizer"
	"synchronizer/internal/app/server"
	"synchronizer/internal/checksum"
	"synchronizer/internal/config"
	"synchronizer/internal/patch"
	"synchronizer/internal/queue"
	"synchronizer/test/kubetest"
)

var operatorCommands = synchronizer.Kind{Group: "kubescape.io", Version: "v1alpha1", Resource: "operatorcommands"}

// say publishes what another part of the backend says to the cluster.
func (b *backend) say(t testing.TB, w *world, m synchronizer.Message) {
	t.Helper()
	b.sayTo(t, w.name, w, m)
}

func (b *backend) sayTo(t testing.TB, cluster string, w *world, m synchronizer.Message) {
	t.Helper()
	m.ClusterID = synchronizer.ClusterID{Account: server.LocalAccount, Cluster: cluster}
	m.Namespace, m.Depth = w.namespaceOf(m.Kind), 1
	if m.MsgID == "" {
		m.MsgID = uuid.NewString()
	}
	encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	record, err := encoder.Encode(&m, queue.Extra{})
	require.NoError(t, err)
	require.NoError(t, b.queue.Publish(t.Context(), synchronizer.In, []synchronizer.Record{record}))
}

func (b *backend) put(t testing.TB, w *world, kind synchronizer.Kind, name string, body []byte) {
	t.Helper()
	b.say(t, w, synchronizer.Message{Event: synchronizer.EventPut, Kind: kind, Name: name, Body: body})
}

// field reads a text of the live object; "" if it or the object is absent.
func (w *world) field(kind synchronizer.Kind, name string, path ...string) string {
	o, err := w.reader.Get(w.t.Context(), kind, w.namespaceOf(kind), name)
	if err != nil {
		return ""
	}
	return field(w.t, o.Body, path...)
}

func field(t testing.TB, body []byte, path ...string) string {
	t.Helper()
	var at any
	require.NoError(t, json.Unmarshal(body, &at))
	for _, name := range path {
		switch parent := at.(type) {
		case map[string]any:
			at = parent[name]
		case []any:
			at = parent[0]
		default:
			return ""
		}
	}
	if at == nil {
		return ""
	}
	return fmt.Sprint(at)
}

// edited is a stored object with a change, as a merge patch.
func edited(t testing.TB, body []byte, change string) []byte {
	t.Helper()
	changed, err := patch.ApplyV1(body, []byte(change))
	require.NoError(t, err)
	return changed
}

// applied is what a client has written, by outcome.
func (a *agent) applied(outcome string) int {
	return int(counter(a.registry, "synchronizer_agent_applied_total", map[string]string{"outcome": outcome}))
}

// What was deleted and changed while the client was down is found by the
// comparison that the server asks for after the connect.
func TestDeletedWhileTheClientIsDown(t *testing.T) { overQueues(t, testDeletedWhileTheClientIsDown) }

func testDeletedWhileTheClientIsDown(t *testing.T, on queueSetup) {
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments)
	w.createMany(configMaps, "settings", 400, 0)
	w.createMany(deployments, "web", 10, 0)
	b := startChanged(t, t.TempDir(), keyed, func(c *config.Config) {
		on(c)
		c.Backend.ReconciliationTask.ReconcileAfterConnectSeconds = 1
	})
	client := w.startClient(to(b))
	w.agree(b)
	client.stop()

	w.delete(configMaps, names("settings", 0, 300)...) // more than are looked for one by one
	w.change(configMaps, names("settings", 300, 310)...)
	w.delete(deployments, names("web", 0, 3)...)
	w.change(deployments, names("web", 3, 5)...)
	w.create(deployments, "new")
	client = w.startClient(to(b))
	w.settled(b)
	for _, name := range []string{"settings-000", "settings-299"} {
		require.False(t, b.object(t, w, configMaps, name).DeletedAt.IsZero())
	}
	client.runs(t)
}

// What the backend says is written into the cluster, and comes back once.
func TestCommandsOfTheBackend(t *testing.T) { overQueues(t, testCommandsOfTheBackend) }

func testCommandsOfTheBackend(t *testing.T, on queueSetup) {
	kubetest.Require(t, startErr)
	w, other := newWorld(t, shared, configMaps, deployments), newWorld(t, shared, configMaps)
	w.create(configMaps, "existing", "doomed")
	w.create(deployments, "web")
	b := startChanged(t, t.TempDir(), keyed, on)
	client := w.startClient(to(b))
	w.agree(b)

	// Create, twice the same.
	created := synchronizer.Message{Event: synchronizer.EventPut, Kind: configMaps, Name: "created", MsgID: uuid.NewString(), Body: w.manifest(configMaps, "created", "")}
	b.say(t, w, created)
	eventually(t, "it is created", func() bool { return w.field(configMaps, "created", "data", "key") == "created" })
	b.say(t, w, created)
	eventually(t, "the repeat is noticed", func() bool {
		return counter(client.registry, "synchronizer_drops_total", map[string]string{"reason": "duplicate"}) == 1
	})
	w.agree(b)

	// Change: what is stored, with another value.
	sent := client.frames("sent", "PutObject") + client.frames("sent", "PatchObject")
	stored := b.object(t, w, configMaps, "existing").Object
	b.put(t, w, configMaps, "existing", edited(t, stored, `{"data":{"key":"put"}}`))
	eventually(t, "it is changed", func() bool { return w.field(configMaps, "existing", "data", "key") == "put" })
	w.agree(b)
	require.Equal(t, sent+1, client.frames("sent", "PutObject")+client.frames("sent", "PatchObject"), "one confirmation")

	// A patch, and one for another state of the object.
	stored = b.object(t, w, configMaps, "existing").Object
	change := `{"data":{"key":"patched"},"metadata":{"resourceVersion":null}}`
	sum, err := checksum.V1(edited(t, stored, change))
	require.NoError(t, err)
	b.say(t, w, synchronizer.Message{Event: synchronizer.EventPatch, Kind: configMaps, Name: "existing", Checksum: sum, Body: []byte(change)})
	eventually(t, "it is patched", func() bool { return w.field(configMaps, "existing", "data", "key") == "patched" })
	w.agree(b)
	b.say(t, w, synchronizer.Message{Event: synchronizer.EventPatch, Kind: configMaps, Name: "existing", Checksum: sum, Body: []byte(`{"data":{"key":"lost"}}`)})
	eventually(t, "the object is asked for", func() bool { return client.frames("sent", "GetObject") == 1 })
	require.Equal(t, "patched", w.field(configMaps, "existing", "data", "key"))

	// What the policy hides is not written back.
	stored = b.object(t, w, deployments, "web").Object
	env := []string{"spec", "template", "spec", "containers", "0", "env", "0", "value"}
	require.Equal(t, "XXXXXX", field(t, stored, env...))
	b.put(t, w, deployments, "web", edited(t, stored, `{"spec":{"replicas":5}}`))
	eventually(t, "it is changed", func() bool { return w.field(deployments, "web", "spec", "replicas") == "5" })
	require.Equal(t, "hidden", w.field(deployments, "web", env...))
	refused := client.applied("refused")
	masked := w.manifest(deployments, "masked", "")
	b.put(t, w, deployments, "masked", edited(t, masked, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"i:1","env":[{"name":"T","value":"XXXXXX"}]}]}}}}`))
	eventually(t, "a mask is refused", func() bool { return client.applied("refused") == refused+1 })

	// Delete, twice; a message for another cluster, and of a kind that is not carried.
	b.sayTo(t, other.name, w, synchronizer.Message{Event: synchronizer.EventDelete, Kind: configMaps, Name: "existing"})
	b.say(t, w, synchronizer.Message{Event: synchronizer.EventDelete, Kind: services, Name: "existing"})
	for range 2 {
		b.say(t, w, synchronizer.Message{Event: synchronizer.EventDelete, Kind: configMaps, Name: "doomed"})
	}
	eventually(t, "it is deleted", func() bool { return client.applied("unchanged") >= 1 })
	_, err = w.reader.Get(t.Context(), configMaps, w.namespace, "doomed")
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	require.Equal(t, "patched", w.field(configMaps, "existing", "data", "key"))
	require.Equal(t, 1.0, counter(client.registry, "synchronizer_drops_total", map[string]string{"reason": "kind_not_configured"}))
	w.settled(b)
	client.runs(t)
}

// Both sides change one object at the same time; neither loses its change, for
// they are about different members.
func TestBothSidesChange(t *testing.T) { overQueues(t, testBothSidesChange) }

func testBothSidesChange(t *testing.T, on queueSetup) {
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps)
	w.create(configMaps, names("settings", 0, 10)...)
	b := startChanged(t, t.TempDir(), keyed, on)
	client := w.startClient(to(b))
	w.agree(b)
	stored := map[string][]byte{}
	for _, name := range names("settings", 0, 10) {
		stored[name] = b.object(t, w, configMaps, name).Object
	}
	for round := range 5 {
		for name, body := range stored {
			b.put(t, w, configMaps, name, edited(t, body, fmt.Sprintf(`{"data":{"key":"round %d"}}`, round)))
			w.change(configMaps, name)
		}
	}
	for name := range stored {
		eventually(t, "the last one is written", func() bool { return w.field(configMaps, name, "data", "key") == "round 4" })
		require.NotEqual(t, "0", w.field(configMaps, name, "metadata", "annotations", "revision"))
	}
	w.settled(b)
	require.Zero(t, client.applied("failed"))
	client.runs(t)
}

var operatorCRD struct {
	sync.Once
	err error
}

// defineOperatorCommands makes the kind in the shared cluster, for the first test
// that wants it.
func defineOperatorCommands(t *testing.T) {
	t.Helper()
	operatorCRD.Do(func() {
		kind := operatorCommands
		operatorCRD.err = shared.CreateCRD(context.WithoutCancel(t.Context()), kind.Group, kind.Version, kind.Resource, "OperatorCommand", kubetest.Namespaced)
	})
	require.NoError(t, operatorCRD.err)
}

// A command goes down, is carried out, and its status comes back. It is not
// carried out twice, whatever is repeated.
func TestOperatorCommand(t *testing.T) { overQueues(t, testOperatorCommand) }

func testOperatorCommand(t *testing.T, on queueSetup) {
	kubetest.Require(t, startErr)
	kind := operatorCommands
	defineOperatorCommands(t)
	w := newWorld(t, shared, configMaps, kind)
	w.create(configMaps, "first")
	b := startChanged(t, t.TempDir(), keyed, on)
	client := w.startClient(to(b))
	w.agree(b)

	command := fmt.Appendf(nil, `{"apiVersion":"kubescape.io/v1alpha1","kind":"OperatorCommand","metadata":{"namespace":%q,"name":"scan"},"spec":{"guid":"g","commandType":"scan"}}`, w.namespace)
	b.put(t, w, kind, "scan", command)
	eventually(t, "the command arrives", func() bool { return w.field(kind, "scan", "spec", "guid") == "g" })
	w.agree(b)
	uid := w.uid(kind, "scan")

	// The operator carries it out.
	status := `{"status":{"started":true,"completed":true,"payload":"done"}}`
	_, err := shared.Do(t.Context(), http.MethodPatch, w.path(kind, "scan"), "application/merge-patch+json", []byte(status))
	require.NoError(t, err)
	eventually(t, "the status comes back", func() bool {
		row := b.object(t, w, kind, "scan")
		return row != nil && field(t, row.Object, "status", "payload") == "done"
	})
	w.agree(b)

	b.put(t, w, kind, "scan", command) // as another message
	eventually(t, "the repeat is handled", func() bool { return client.applied("unchanged") == 1 })
	require.Equal(t, uid, w.uid(kind, "scan"))
	require.Equal(t, "done", w.field(kind, "scan", "status", "payload"))

	require.NoError(t, w.tryDelete(t.Context(), kind, "scan")) // cleaned up
	w.agree(b)
	b.put(t, w, kind, "scan", command)
	eventually(t, "it is not created again", func() bool { return client.applied("refused") == 1 })
	_, err = shared.Get(t.Context(), w.path(kind, "scan"))
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	client.runs(t)
}
