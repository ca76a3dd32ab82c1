// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

var alerts = synchronizer.Kind{Group: "kubescape.io", Version: "v1", Resource: "runtimealerts"}

// events reads the bodies of a kind's events, the newest first.
func (r *rig) events(t *testing.T, kind synchronizer.Kind) (bodies []string) {
	page, err := r.store.Events(t.Context(), synchronizer.EventQuery{Account: cluster.Account, Resources: []string{kind.Resource}, Full: true})
	require.NoError(t, err)
	for _, e := range page.Events {
		bodies = append(bodies, string(e.Body))
	}
	return bodies
}

// Reports are appended: several of one name stay, one that comes twice is one, and
// none replaces or deletes another.
func TestReportsAreAppended(t *testing.T) {
	r := newRig(t, nil)
	posted := func(seq uint64, msgID, text string) synchronizer.Record {
		doc := fmt.Sprintf(`{"metadata":{"name":"same"},"text":%q}`, text)
		return about(say(t, "s1", seq, synchronizer.Message{Event: synchronizer.EventPut, Name: "same", Body: []byte(doc), MsgID: msgID}), alerts)
	}
	watched := about(put(t, "s1", 4, "watched", body("watched", "u", 1)), alerts)
	r.deliver(t, connected(t, "s1"), posted(1, "m1", "a"), posted(2, "m2", "b"), posted(3, "m2", "c"), watched)
	again := about(put(t, "s1", 9, "watched", body("watched", "u", 1)), alerts)
	r.deliver(t, posted(1, "m1", "a"), again, about(put(t, "s1", 5, "watched", body("watched", "u", 2)), alerts), about(remove(t, "s1", 6, "watched"), alerts))
	require.ElementsMatch(t, []string{
		`{"metadata":{"name":"same"},"text":"a"}`, `{"metadata":{"name":"same"},"text":"b"}`, `{"metadata":{"name":"same"},"text":"c"}`,
		string(body("watched", "u", 1)), string(body("watched", "u", 2)),
	}, r.events(t, alerts))
	page, err := r.store.Objects(t.Context(), synchronizer.ObjectQuery{Deleted: true})
	require.NoError(t, err)
	require.Empty(t, page.Rows)

	// What was announced is asked for, with an empty base where only patches come.
	r.deliver(t, about(verify(t, "s1", 7, "new", "x"), alerts), about(change(t, "s1", 8, "old", `{"a":1}`, "no"), alerts))
	asked := r.questions(t)
	require.Len(t, asked, 2)
	require.Equal(t, []string{"", "{}"}, []string{string(asked[0].Body), string(asked[1].Body)})
	whole := body("old", "u2", 3)
	r.deliver(t, about(change(t, "s1", 10, "old", string(whole), sum(t, whole)), alerts))
	require.Contains(t, r.events(t, alerts), string(whole))

	// They are in no comparison.
	r.deliver(t, request(t, "m"))
	require.Empty(t, lists(t, r.questions(t)))
}

// A kind can be declared to be one of reports.
func TestEventKinds(t *testing.T) {
	r := newRigAt(t, filepath.Join(t.TempDir(), "test.db"), func(o *Options) { o.EventKinds = []synchronizer.Kind{pods} })
	r.deliver(t, connected(t, "s1"), about(put(t, "s1", 1, "a", body("a", "u", 1)), pods), about(put(t, "s1", 2, "a", body("a", "u", 2)), pods))
	require.Len(t, r.events(t, pods), 2)
}

// What is old is forgotten; what is said of an object that was deleted and
// forgotten is late, from whoever spoke before.
func TestForgetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigAt(t, filepath.Join(t.TempDir(), "test.db"), func(o *Options) {
			o.Keeper = o.Store.(Forgetting)
			o.Retention = Retention{Tombstones: time.Hour, Events: 2 * time.Hour, Clusters: 6 * time.Hour}
		})
		report := about(put(t, "s1", 9, "alert", body("alert", "u", 1)), alerts)
		r.deliver(t, connected(t, "s1"), seen(t, "s1"), put(t, "s1", 1, "web", body("web", "u", 1)), put(t, "s1", 2, "stays", body("stays", "u", 1)), remove(t, "s1", 3, "web"), report)
		pass(50 * time.Minute)
		require.NotNil(t, r.row(t, "web"))
		pass(30 * time.Minute)
		require.Nil(t, r.row(t, "web"))
		require.NotNil(t, r.row(t, "stays"))
		r.deliver(t, put(t, "s1", 1, "web", body("web", "u", 1)), verify(t, "s1", 3, "web", "x"), remove(t, "s1", 2, "web"))
		require.Nil(t, r.row(t, "web"))
		require.Equal(t, 3, r.drops.of(synchronizer.DropLate))
		for _, m := range r.questions(t) {
			require.NotEqual(t, synchronizer.EventGet, m.Event)
		}
		r.deliver(t, put(t, "s1", 4, "web", body("web", "u2", 2)))
		require.NotNil(t, r.row(t, "web"), "and what is newer is not")

		require.Len(t, r.events(t, alerts), 1)
		pass(time.Hour)
		require.Empty(t, r.events(t, alerts))
		require.NotNil(t, r.row(t, "web"))
		pass(5 * time.Hour)
		require.NotNil(t, r.row(t, "web"), "its client spoke long after its connection was reported")
		pass(time.Hour)
		require.Nil(t, r.row(t, "web"))
		clusters, err := r.store.Clusters(t.Context(), synchronizer.ClusterID{})
		require.NoError(t, err)
		require.Empty(t, clusters)
		r.deliver(t, put(t, "s1", 5, "web", body("web", "u2", 3)))
		require.Nil(t, r.row(t, "web"), "the connection spoke before the cluster was deleted")
		r.deliver(t, connected(t, "s2"), put(t, "s2", 1, "web", body("web", "u2", 3)))
		require.NotNil(t, r.row(t, "web"))
	})
}

// What the connections of a deleted cluster have said, and still say, is late:
// events as well.
func TestEventsOfADeletedClusterAreLate(t *testing.T) {
	r := newRig(t, nil)
	alert := func(source string, seq uint64, name string) synchronizer.Record {
		return about(put(t, source, seq, name, body(name, "u", int(seq))), alerts)
	}
	names := func() (names []string) {
		page, err := r.store.Events(t.Context(), synchronizer.EventQuery{Account: cluster.Account})
		require.NoError(t, err)
		for _, e := range page.Events {
			names = append(names, e.Key.Name)
		}
		return names
	}
	r.deliver(t, connected(t, "s1"), alert("s1", 1, "old"))
	require.Equal(t, []string{"old"}, names())
	require.NoError(t, r.store.DeleteCluster(t.Context(), cluster))
	r.deliver(t, alert("s1", 1, "old"), alert("s1", 2, "still"), about(verify(t, "s1", 3, "still", "aa"), alerts))
	r.deliver(t, connected(t, "s2"))
	require.Empty(t, names())
	require.Empty(t, r.questions(t))
	require.Equal(t, 3, r.drops.of(synchronizer.DropLate))
	r.deliver(t, alert("s1", 2, "still"), alert("s2", 1, "new"))
	require.Equal(t, []string{"new"}, names())
}
