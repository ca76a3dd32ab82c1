// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/internal/queue"
	"synchronizer/test/kubetest"
)

// reconcilingSoon lets the server ask for a reconciliation a second after a connect.
func reconcilingSoon(c *config.Config) { c.Backend.ReconciliationTask.ReconcileAfterConnectSeconds = 1 }

// statements counts the frames that the client has sent, by event, without pings.
func (a *agent) statements() map[string]int {
	counts := map[string]int{}
	for _, event := range []string{"NewChecksum", "ObjectDeleted", "GetObject", "PatchObject", "PutObject", "Batch", "Unknown"} {
		counts[event] = a.frames("sent", event)
	}
	return counts
}

// deleted tells whether the store has a tombstone of an object.
func (b *backend) deleted(w *world, kind synchronizer.Kind, name string) bool {
	row := b.object(w.t, w, kind, name)
	return row != nil && !row.DeletedAt.IsZero()
}

// fence returns when the client, which must be connected, is done with all
// reconciliations that it was sent. It is sent another one: of all that is stored,
// and of one object per kind that there never was. A kind's are answered one after
// the other, so that the deletion of that object is what is said last. The result
// is how many of these deletions there were.
func (w *world) fence(b *backend) int {
	w.t.Helper()
	stored, err := b.stored(w.t.Context(), server.LocalAccount, w.name)
	require.NoError(w.t, err)
	known := map[synchronizer.Kind][]synchronizer.KnownObject{}
	for key, entry := range stored {
		version, err := strconv.ParseInt(entry.ResourceVersion, 10, 64)
		require.NoError(w.t, err)
		known[key.Kind] = append(known[key.Kind], synchronizer.KnownObject{Namespace: key.Namespace, Name: key.Name, ResourceVersion: version, Checksum: entry.Checksum})
	}
	name := fmt.Sprintf("fence-%d", w.revision.Add(1))
	for kind := range known {
		known[kind] = append(known[kind], synchronizer.KnownObject{Namespace: w.namespaceOf(kind), Name: name})
	}
	b.say(w.t, w, synchronizer.Message{Event: synchronizer.EventReconciliation, ServerInitiated: true, Known: known})
	for kind := range known {
		eventually(w.t, "the fence of "+kind.Resource, func() bool { return b.deleted(w, kind, name) })
	}
	return len(known)
}

// reconcile asks for a reconciliation as a server does, and returns when the lists
// are on their way to the client.
func (w *world) reconcile(b *backend) {
	w.t.Helper()
	before := b.records("ReconciliationRequest", "listed")
	encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Server}
	record, err := encoder.Encode(&synchronizer.Message{
		Event: synchronizer.EventReconciliation, Depth: 1, MsgID: uuid.NewString(), ServerInitiated: true,
		ClusterID: synchronizer.ClusterID{Account: server.LocalAccount, Cluster: w.name},
	}, queue.Extra{})
	require.NoError(w.t, err)
	require.NoError(w.t, b.queue.Publish(w.t.Context(), synchronizer.Out, []synchronizer.Record{record}))
	eventually(w.t, "the ingester has published what it knows", func() bool { return b.records("ReconciliationRequest", "listed") > before })
}

// reconcileSaying lets the client answer a reconciliation; it has to tell so many
// deletions and nothing else.
func (w *world) reconcileSaying(b *backend, client *agent, deletions int) {
	w.t.Helper()
	want, lists, deleted := client.statements(), client.frames("received", "Batch"), b.records("DeleteObject", "deleted")
	w.reconcile(b)
	eventually(w.t, "the deletions are stored", func() bool { return b.records("DeleteObject", "deleted") >= deleted+deletions })
	fences := w.fence(b) // which would list again what is not deleted yet
	want["ObjectDeleted"] += fences + deletions
	eventually(w.t, "all is counted", func() bool { return client.frames("sent", "ObjectDeleted") >= want["ObjectDeleted"] })
	require.Equal(w.t, want, client.statements())
	require.GreaterOrEqual(w.t, client.frames("received", "Batch"), lists+2*fences, "the list of each kind, and its fence")
}

// TestB051DeletedWhileTheClientIsAway: what is gone when a client comes back is told
// by the reconciliation after its connect, once.
func TestB051DeletedWhileTheClientIsAway(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps)
	w.create(configMaps, "a", "b", "c")
	b := startChanged(t, t.TempDir(), keyed, reconcilingSoon)
	client := w.startClient(to(b))
	w.agree(b)
	client.stop()
	unchanged, gone := b.object(t, w, configMaps, "a"), b.object(t, w, configMaps, "b")
	require.True(t, gone.DeletedAt.IsZero())

	w.delete(configMaps, "b")
	w.change(configMaps, "c")
	w.create(configMaps, "d")
	client = w.startClient(to(b))
	w.agree(b) // not one object more
	require.Equal(t, 3, b.count(t.Context(), w))
	require.Equal(t, unchanged.Object, b.object(t, w, configMaps, "a").Object)
	require.Equal(t, w.revision.Load(), revisionOf(t, b.object(t, w, configMaps, "c")))
	require.Equal(t, w.uid(configMaps, "d"), b.object(t, w, configMaps, "d").UID)
	require.True(t, b.deleted(w, configMaps, "b"))
	require.Equal(t, 1, b.records("DeleteObject", "deleted"), "by a message of the client")
	require.Equal(t, 1, client.frames("sent", "ObjectDeleted"))
	require.Equal(t, 1, client.frames("received", "Batch"), "that answered the reconciliation")

	w.fence(b) // the first one is done
	w.reconcileSaying(b, client, 0)
	client.stop()

	// The next client, too, has nothing to correct.
	client = w.startClient(to(b))
	eventually(t, "its reconciliation has come", func() bool { return client.frames("received", "Batch") == 1 })
	fences := w.fence(b)
	eventually(t, "the fence is counted", func() bool { return client.frames("sent", "ObjectDeleted") >= fences })
	require.Equal(t, map[string]int{
		"NewChecksum": 3, "ObjectDeleted": fences, "GetObject": 0, "PatchObject": 0, "PutObject": 0, "Batch": 0, "Unknown": 0,
	}, client.statements())
	w.agree(b)
	client.runs(t)
}
