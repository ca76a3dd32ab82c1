// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// The whole way of a first sync: asked, answered, and confirmed the second time.
func TestFirstSyncAsksOnceAndNeverAgain(t *testing.T) {
	r := newRig(t, nil)
	doc := body("web", "u1", 1)
	r.deliver(t, connected(t, "s1"), verify(t, "s1", 1, "web", sum(t, doc)))
	asked := r.questions(t)
	require.Len(t, asked, 1)
	require.Equal(t, synchronizer.EventGet, asked[0].Event)
	require.Equal(t, "s1-1", asked[0].MsgID, "the question keeps the MsgID")
	require.Equal(t, 2, asked[0].Depth, "and the depth")
	require.Empty(t, asked[0].Body)
	require.Nil(t, r.row(t, "web"), "a checksum alone is no row")

	r.deliver(t, put(t, "s1", 2, "web", doc))
	row := r.row(t, "web")
	require.Equal(t, string(doc), string(row.Body))
	require.Equal(t, "u1", row.UID)
	require.Equal(t, "101", row.ResourceVersion, "from the body, not from the frame")
	require.Equal(t, synchronizer.Order{Generation: 1, Seq: 2}, row.Order)

	r.deliver(t, connected(t, "s2"), verify(t, "s2", 1, "web", sum(t, doc)))
	require.Empty(t, r.questions(t))
	require.Equal(t, synchronizer.Order{Generation: 2, Seq: 1}, r.row(t, "web").Order, "a confirmation moves the row on")
	require.Equal(t, string(doc), string(r.row(t, "web").Body))
}

// A stock client may announce another checksum than it then sends (habit 13);
// that must not make it send the body for ever.
func TestAnnouncedChecksumIsAcceptedLater(t *testing.T) {
	r := newRig(t, nil)
	doc := body("web", "u1", 1)
	announced := "00" + sum(t, doc)[2:]
	r.deliver(t, connected(t, "s1"), say(t, "s1", 1, synchronizer.Message{Event: synchronizer.EventVerify, Name: "web", Checksum: announced, MsgID: "m"}))
	require.Len(t, r.questions(t), 1)
	r.deliver(t, say(t, "s1", 2, synchronizer.Message{Event: synchronizer.EventPut, Name: "web", Body: doc, Checksum: sum(t, doc), MsgID: "m", Depth: 5}))
	r.deliver(t, verify(t, "s1", 3, "web", announced), verify(t, "s1", 4, "web", sum(t, doc)))
	require.Empty(t, r.questions(t))
}

func TestManyStatementsOfOneObjectInOneBatch(t *testing.T) {
	r := newRig(t, nil)
	last := body("web", "u2", 5)
	r.deliver(t, connected(t, "s1"),
		verify(t, "s1", 1, "web", "aa"), put(t, "s1", 2, "web", body("web", "u1", 1)),
		remove(t, "s1", 3, "web"), verify(t, "s1", 4, "web", "bb"), put(t, "s1", 5, "web", last))
	require.Empty(t, r.questions(t), "what was asked was answered in the same batch")
	require.Equal(t, string(last), string(r.row(t, "web").Body))
	require.False(t, r.row(t, "web").Deleted())
}

func TestDeleteLeavesATombstone(t *testing.T) {
	r := newRig(t, nil)
	r.deliver(t, connected(t, "s1"), put(t, "s1", 1, "web", body("web", "u1", 1)), remove(t, "s1", 2, "web"), remove(t, "s1", 3, "never-seen"))
	require.True(t, r.row(t, "web").Deleted())
	require.Empty(t, r.row(t, "web").Body)
	require.True(t, r.row(t, "never-seen").Deleted(), "so that a late Put cannot revive it")
	r.deliver(t, put(t, "s1", 4, "web", body("web", "u2", 2)))
	require.False(t, r.row(t, "web").Deleted())
}

func TestPatch(t *testing.T) { synctest.Test(t, testPatch) }

func testPatch(t *testing.T) {
	r := newRig(t, nil)
	before, after := body("web", "u1", 1), body("web", "u1", 2)
	diff := `{"metadata":{"resourceVersion":"102"},"spec":{"replicas":2}}`
	r.deliver(t, connected(t, "s1"), put(t, "s1", 1, "web", before), change(t, "s1", 2, "web", diff, sum(t, after)))
	require.Equal(t, string(after), string(r.row(t, "web").Body))
	require.Equal(t, "102", r.row(t, "web").ResourceVersion)

	// One that does not fit leaves the row alone and asks with an empty base …
	r.deliver(t, change(t, "s1", 3, "web", `{"spec":{"replicas":9}}`, "ff"))
	asked := r.questions(t)
	require.Len(t, asked, 1)
	require.Equal(t, "{}", string(asked[0].Body))
	require.Equal(t, string(after), string(r.row(t, "web").Body))

	// … the answer to which is the whole object as a patch.
	third := body("web", "u1", 3)
	r.deliver(t, say(t, "s1", 4, synchronizer.Message{Event: synchronizer.EventPatch, Name: "web", Body: third, Checksum: sum(t, third), MsgID: asked[0].MsgID, Depth: 5}))
	require.Equal(t, string(third), string(r.row(t, "web").Body))
	require.Empty(t, r.questions(t))

	// A second failure is counted, and the object is not asked for once more.
	r.deliver(t, change(t, "s1", 5, "web", `{}`, "ee"))
	again := r.questions(t)
	require.Len(t, again, 1)
	r.deliver(t, say(t, "s1", 6, synchronizer.Message{Event: synchronizer.EventPatch, Name: "web", Body: []byte(`{"x":1}`), Checksum: "dd", MsgID: again[0].MsgID, Depth: 5}))
	synctest.Wait()
	require.Equal(t, map[string]string{"apps/v1/deployments": "default/web@0"}, lists(t, r.questions(t)), "only a listing can get it")
	require.Equal(t, 1, r.drops.of(synchronizer.DropPatchBase))
	require.Equal(t, string(third), string(r.row(t, "web").Body))
}

// A chain of answers that could no longer be answered begins anew.
func TestQuestionOfADeepRecordBeginsANewChain(t *testing.T) {
	r := newRig(t, nil)
	r.deliver(t, connected(t, "s1"),
		say(t, "s1", 1, synchronizer.Message{Event: synchronizer.EventVerify, Name: "a", Checksum: "aa", Depth: 6, MsgID: "m6"}),
		say(t, "s1", 2, synchronizer.Message{Event: synchronizer.EventVerify, Name: "b", Checksum: "bb", Depth: 7, MsgID: "m7"}))
	asked := r.questions(t)
	require.Len(t, asked, 2)
	require.Equal(t, []any{6, "m6"}, []any{asked[0].Depth, asked[0].MsgID})
	require.Equal(t, 1, asked[1].Depth)
	require.NotEqual(t, "m7", asked[1].MsgID)
}

// What can never be stored is set aside and named; the rest of its batch is not
// touched by it, and it does not come again.
func TestPoisonIsSetAside(t *testing.T) {
	r, _ := poisoned(t, func(o *Options) { o.MaxAttempts = 2 })
	notJSON := say(t, "s1", 3, synchronizer.Message{Event: synchronizer.EventPut, Name: "broken", Body: []byte(`{"metadata":`), Checksum: "x"})
	noEvent := synchronizer.Record{Key: cluster.String(), Payload: []byte("?")}
	badKind := put(t, "s1", 4, "bad-kind", body("bad-kind", "u", 1))
	for i := range badKind.Properties {
		if badKind.Properties[i].Name == "resource" {
			badKind.Properties[i].Value = "a/b"
		}
	}
	var records []synchronizer.Record
	records = append(records, connected(t, "s1"), notJSON, noEvent, badKind)
	for i, name := range []string{"a", "b", "poison-1", "c", "d", "poison-2", "e"} {
		records = append(records, put(t, "s1", uint64(10+i), name, body(name, "u", 1)))
	}
	r.deliver(t, records...)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		require.NotNil(t, r.row(t, name), name)
	}
	require.Nil(t, r.row(t, "poison-1"))
	require.Len(t, r.dead, 4)
	require.Equal(t, 4, r.drops.of(synchronizer.DropDeadLetter))
	require.Equal(t, 1, r.drops.of(synchronizer.DropUnknownEvent))
	require.Contains(t, r.drops.named, "PutObject acc/c1 apps/v1/deployments default/poison-1: invalid: the database refuses this row")
	require.NotEmpty(t, r.dead[0].Property("x-dead-letter-reason"))
}

// A database that is away is no fault of a record: nothing is acknowledged,
// nothing set aside, and it goes on by itself.
func TestDatabaseAway(t *testing.T) {
	var store *brokenStore
	r := newRig(t, func(s synchronizer.Store) synchronizer.Store {
		store = &brokenStore{Store: s, err: errors.New("database is away")}
		return store
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.deliver(t, connected(t, "s1"), put(t, "s1", 1, "web", body("web", "u1", 1)))
	}()
	require.Eventually(t, func() bool { return store.tried() >= 3 }, 10*time.Second, time.Millisecond)
	require.ErrorContains(t, r.ingester.Ready(), "database is away")
	select {
	case <-done:
		t.Fatal("acknowledged without being written")
	default:
	}
	store.set(nil)
	<-done
	require.NoError(t, r.ingester.Ready())
	require.NotNil(t, r.row(t, "web"))
	require.Empty(t, r.dead)
}

func TestTwoAccountsWithOneClusterName(t *testing.T) {
	r := newRig(t, nil)
	doc := body("web", "u1", 1)
	other := put(t, "s9", 1, "web", body("web", "other", 7))
	for i := range other.Properties {
		if other.Properties[i].Name == "account" {
			other.Properties[i].Value = "somebody"
		}
	}
	r.deliver(t, connected(t, "s1"), put(t, "s1", 1, "web", doc), other)
	require.Equal(t, "u1", r.row(t, "web").UID)
	require.Equal(t, int64(1), r.row(t, "web").Order.Generation)
}
