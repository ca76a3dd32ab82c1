// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// seen is a server's report of the cluster's client.
func seen(t require.TestingT, source string) synchronizer.Record {
	return say(t, source, 0, synchronizer.Message{
		Event: synchronizer.EventConnectedClients,
		Clients: &synchronizer.ConnectedClients{Clients: []synchronizer.ConnectedClient{
			{Hello: synchronizer.Hello{ClusterID: cluster}, ConnectionID: source, ConnectionTime: time.Now()},
		}},
	})
}

// pass lets time pass in a bubble, and what is due then happen.
func pass(d time.Duration) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
}

var threeKinds = []synchronizer.Kind{pods, deployments, {Version: "v1", Resource: "configmaps"}}

const onlySentinel = "/" + sentinelName + "@0"

// A minute after its first connection a cluster is asked for the kinds of which
// nothing was heard, and again after the next connections for those that it did
// not answer for.
func TestFirstSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigAt(t, filepath.Join(t.TempDir(), "test.db"), func(o *Options) { o.V1Kinds = threeKinds })
		r.deliver(t, connected(t, "s1"), seen(t, "s1"))
		pass(20 * time.Second)
		r.deliver(t, put(t, "s1", 1, "web", body("web", "u", 1)), connected(t, "s2"))
		pass(39 * time.Second)
		require.Empty(t, r.questions(t), "not before a minute has passed")
		pass(2 * time.Second)
		asked := r.questions(t)
		require.Equal(t, map[string]string{"/v1/pods": onlySentinel, "/v1/configmaps": onlySentinel}, lists(t, asked))
		require.Equal(t, asked[0].MsgID, asked[1].MsgID)
		require.Equal(t, 1, asked[0].Depth)

		r.deliver(t, about(remove(t, "s2", 1, sentinelName), pods), connected(t, "s3"))
		pass(time.Hour)
		require.Equal(t, map[string]string{"/v1/configmaps": onlySentinel}, lists(t, r.questions(t)))

		// It does not have that kind: a few times are enough.
		r.deliver(t, connected(t, "s4"))
		pass(time.Hour)
		require.Len(t, r.questions(t), 1)
		r.deliver(t, connected(t, "s5"))
		pass(time.Hour)
		require.Empty(t, r.questions(t))
	})
}

// The appointment outlives the process: the store knows when the cluster was
// first seen.
func TestFirstSyncAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "test.db")
		few := func(o *Options) { o.V1Kinds = threeKinds[:1] }
		r := newRigAt(t, path, few)
		r.deliver(t, connected(t, "s1"), seen(t, "s1"))
		pass(30 * time.Second)
		r.stop()

		r = newRigAt(t, path, few)
		pass(29 * time.Second)
		require.Empty(t, r.questions(t))
		pass(2 * time.Second)
		require.Equal(t, map[string]string{"/v1/pods": onlySentinel}, lists(t, r.questions(t)))
		r.stop()

		// Without an answer, the next process asks once more, and later not: the
		// cluster is known for a day.
		r = newRigAt(t, path, few)
		pass(61 * time.Second)
		require.Len(t, r.questions(t), 1)
		pass(firstSyncAge)
		r.deliver(t, connected(t, "s2"))
		pass(61 * time.Second)
		require.Empty(t, r.questions(t))
		r.stop()
		r = newRigAt(t, path, few)
		pass(61 * time.Second)
		require.Empty(t, r.questions(t))
	})
}

// failing sends a patch that does not fit, and again when it is asked for.
func failing(t *testing.T, r *rig, seq uint64, name string) {
	t.Helper()
	msgID := fmt.Sprintf("patch-%s-%d", name, seq)
	say2 := func(seq uint64) synchronizer.Record {
		return say(t, "s1", seq, synchronizer.Message{Event: synchronizer.EventPatch, Name: name, Body: []byte(`{"x":1}`), Checksum: "no", MsgID: msgID})
	}
	r.deliver(t, say2(seq))
	asked := r.questions(t)
	require.NotEmpty(t, asked)
	require.Equal(t, synchronizer.EventGet, asked[len(asked)-1].Event)
	r.deliver(t, say2(seq+1))
}

// An object whose patches do not fit is listed with resourceVersion 0 among all
// others of its kind, at most once a minute per kind.
func TestEscalation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigAt(t, filepath.Join(t.TempDir(), "test.db"), func(o *Options) { o.V1Kinds = []synchronizer.Kind{deployments} })
		r.deliver(t, connected(t, "s1"), put(t, "s1", 1, "a", body("a", "u", 1)), put(t, "s1", 2, "b", body("b", "u", 1)), put(t, "s1", 3, "c", body("c", "u", 1)))
		failing(t, r, 4, "b")
		synctest.Wait()
		require.Equal(t, map[string]string{"apps/v1/deployments": "default/a@101 default/b@0 default/c@101"}, lists(t, r.questions(t)))
		require.Equal(t, 1, r.drops.of(synchronizer.DropPatchBase))
		require.Equal(t, string(body("b", "u", 1)), string(r.row(t, "b").Body), "the row is left alone")

		failing(t, r, 6, "b")
		failing(t, r, 8, "c")
		failing(t, r, 10, "unknown")
		pass(58 * time.Second)
		require.Empty(t, lists(t, r.questions(t)))
		pass(2 * time.Second)
		require.Equal(t, map[string]string{"apps/v1/deployments": "default/a@101 default/b@0 default/c@0 default/unknown@0"}, lists(t, r.questions(t)))
		pass(time.Hour)
		require.Empty(t, r.questions(t))
	})
}

// An object that holds an integer that clients round is stored as its patch says, and
// fetched whole as well: the integer may have changed by less than they see.
func TestLargeIntegersBesideAPatchAreFetchedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		large := func(version int, n string) []byte {
			return []byte(strings.Replace(string(body("web", "u", version)), `{"replicas":`, `{"big":`+n+`,"replicas":`, 1))
		}
		patched := large(2, "9007199254740993")
		r.deliver(t, connected(t, "s1"), put(t, "s1", 1, "web", large(1, "9007199254740993")),
			change(t, "s1", 2, "web", `{"metadata":{"resourceVersion":"102"},"spec":{"replicas":2}}`, sum(t, large(2, "9007199254740992"))))
		require.Equal(t, string(patched), string(r.row(t, "web").Body))
		synctest.Wait()
		require.Equal(t, map[string]string{"apps/v1/deployments": "default/web@0"}, lists(t, r.questions(t)))
		whole := large(2, "9007199254740992")
		r.deliver(t, put(t, "s1", 3, "web", whole))
		require.Equal(t, string(whole), string(r.row(t, "web").Body))
		synctest.Wait()
		require.Empty(t, r.questions(t), "the whole object is exact")
	})
}

// Integers that a patch may have rounded are fetched whole: the checksum cannot
// tell.
func TestLargeIntegersAreFetchedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		before := body("web", "u", 1)
		after := strings.Replace(string(body("web", "u", 2)), `"replicas":2`, `"replicas":2,"big":9007199254740993`, 1)
		r.deliver(t, connected(t, "s1"), put(t, "s1", 1, "web", before),
			change(t, "s1", 2, "web", `{"metadata":{"resourceVersion":"102"},"spec":{"big":9007199254740992,"replicas":2}}`, sum(t, []byte(after))))
		synctest.Wait()
		require.Equal(t, map[string]string{"apps/v1/deployments": "default/web@0"}, lists(t, r.questions(t)))
		require.Equal(t, string(before), string(r.row(t, "web").Body))
		r.deliver(t, put(t, "s1", 3, "web", []byte(after)))
		require.Equal(t, after, string(r.row(t, "web").Body))
		require.Zero(t, r.drops.of(synchronizer.DropPatchBase))
	})
}

// What waits to be listed is bounded, and what came too late is named.
func TestEscalationsAreBounded(t *testing.T) {
	a := newAgenda()
	now := time.Unix(1000, 0)
	for i := range mostEscalated {
		require.True(t, a.escalate(synchronizer.ObjectKey{ClusterID: cluster, Kind: deployments, Name: fmt.Sprint(i)}, now))
	}
	require.False(t, a.escalate(synchronizer.ObjectKey{ClusterID: cluster, Kind: pods, Name: "late"}, now))
	due, _ := a.take(now)
	require.Len(t, due.exact, mostEscalated)
	require.True(t, a.escalate(synchronizer.ObjectKey{ClusterID: cluster, Kind: pods, Name: "late"}, now))
	due, _ = a.take(now)
	require.Len(t, due.exact, 1)
	_, _ = a.take(now.Add(escalateEvery))
	require.Empty(t, a.listed, "nothing is remembered for ever")
}

func TestRoundsNumbers(t *testing.T) {
	for doc, want := range map[string]bool{
		`{}`: false, `{"a":1}`: false, `[1.5,-2e3,0]`: false, `"9007199254740993"`: false, `{"9007199254740993":"\"9007199254740993"}`: false,
		`9007199254740991`: false, `9007199254740992`: true, `{"a":[-9007199254740993]}`: true, `{"a":1e21}`: true, `[1,12345678901234567890]`: true,
		`1e999`: true, ``: false, `"open`: false, `"open\`: false,
	} {
		require.Equal(t, want, roundsNumbers([]byte(doc)), doc)
	}
}

// A cluster that was deleted in the store, by another process or by age, is asked
// again when it is back, however often it was asked before.
func TestFirstSyncOfAClusterThatWasDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigAt(t, filepath.Join(t.TempDir(), "test.db"), func(o *Options) { o.V1Kinds = threeKinds })
		for round := range 3 {
			before := fmt.Sprintf("before-%d", round)
			r.deliver(t, connected(t, before), seen(t, before))
			pass(61 * time.Second)
			require.Len(t, r.questions(t), 3, "%d", round)
			for k, kind := range threeKinds {
				r.deliver(t, about(remove(t, before, uint64(k+1), sentinelName), kind))
			}
			after := fmt.Sprintf("after-%d", round)
			r.deliver(t, connected(t, after), seen(t, after))
			pass(61 * time.Second)
			require.Empty(t, r.questions(t), "%d", round)
			require.NoError(t, r.store.DeleteCluster(t.Context(), cluster))

			// Until it connects again it is not there: neither by an answer that was on its
			// way nor by its server's reports.
			r.deliver(t, about(remove(t, before, 9, sentinelName), pods), seen(t, after))
			pass(2 * firstSyncAge)
			clusters, err := r.store.Clusters(t.Context(), synchronizer.ClusterID{})
			require.NoError(t, err)
			require.Empty(t, clusters)
		}
	})
}
