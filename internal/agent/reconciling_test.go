// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/kube/kubefake"
	"synchronizer/internal/rawjson"
	"synchronizer/internal/wire"
)

const batchDepth = 3

// reconcile sends what the backend has of a kind; exact: as objects that it wants
// whole.
func (b *backend) reconcile(kind synchronizer.Kind, exact bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.link == nil {
		return
	}
	b.batches++
	msg := synchronizer.Message{
		Event: synchronizer.EventBatch, BatchType: wire.Reconciliation, Kind: kind, Depth: batchDepth, MsgID: fmt.Sprint("batch", b.batches),
	}
	for name, row := range b.objects {
		at, found := strings.CutPrefix(name, kind.String()+" ")
		if !found {
			continue
		}
		item := synchronizer.Message{Event: synchronizer.EventVerify, Kind: kind, Checksum: row.checksum}
		item.Namespace, item.Name, _ = strings.Cut(at, "/")
		if !exact {
			item.ResourceVersion = versionIn(row.body)
		}
		msg.Items = append(msg.Items, item)
	}
	b.link.down <- msg
}

func versionIn(body []byte) int64 {
	text, err := rawjson.Get(body, "metadata", "resourceVersion")
	if err != nil {
		return 0
	}
	version, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// checkAnswer holds the answers to a reconciliation to their order; b.mu is held.
func (b *backend) checkAnswer(msg *synchronizer.Message) {
	if !strings.HasPrefix(msg.MsgID, "batch") || msg.Depth > batchDepth+1 {
		return // or an answer to a GetObject that followed
	}
	parts := map[synchronizer.Event]pass{synchronizer.EventDelete: passAbsent, synchronizer.EventPut: passChanged, synchronizer.EventVerify: passUnlisted}
	part, found := parts[msg.Event]
	if !found || msg.Depth != batchDepth+1 {
		b.faults = append(b.faults, fmt.Sprintf("answer to a reconciliation: %+v", msg))
	}
	if b.parts == nil {
		b.parts = map[string]pass{}
	}
	if part < b.parts[msg.MsgID] && msg.Event != synchronizer.EventPut { // an object that is there after all is put at once
		b.faults = append(b.faults, fmt.Sprintf("answer to a reconciliation out of order: %v %s", msg.Event, msg.Name))
	}
	if msg.Event != synchronizer.EventPut || b.parts[msg.MsgID] != passAbsent {
		b.parts[msg.MsgID] = part
	}
}

// lose forgets an object, as a backend that was restored from a backup.
func (b *backend) lose(kind synchronizer.Kind, namespace, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, fmt.Sprint(kind, " ", namespace, "/", name))
}

// invent adds one that the cluster does not have.
func (b *backend) invent(kind synchronizer.Kind, namespace, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[fmt.Sprint(kind, " ", namespace, "/", name)] = row{uid: "x", checksum: strings.Repeat("0", 64), body: []byte(`{"metadata":{"uid":"x","resourceVersion":"1"}}`)}
}

// restart starts another client in place of the one that was stopped.
func (r *rig) restart(options Options) {
	a, err := New(options)
	require.NoError(r.t, err)
	r.agent, r.done = a, make(chan error, 1)
	r.start()
}

// TestDeletedWhileTheClientWasDown: what a client did not see can only be found
// by comparing.
func TestDeletedWhileTheClientWasDown(t *testing.T) {
	for _, n := range []int{3, 700} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var options Options
				r := newRig(t, func(o *Options) {
					withHollow(o)
					withSelected(o)
					options = *o
				})
				kinds := []synchronizer.Kind{configmaps, deployments, profiles, services}
				for _, kind := range kinds {
					for i := range 3 * n {
						r.cluster.Put(kind, doc(kind, "default", fmt.Sprint("c", i), "1"))
					}
				}
				r.start()
				r.settle(10 * time.Minute)
				require.NoError(t, r.agree(kinds...))
				r.stop()
				for _, kind := range kinds {
					for i := range n {
						r.cluster.Delete(kind, "default", fmt.Sprint("c", i))
						r.cluster.Put(kind, doc(kind, "default", fmt.Sprint("c", n+i), "2"))
						r.backend.lose(kind, "default", fmt.Sprint("c", 2*n+i))
					}
				}
				r.cluster.Put(services, doc(services, "default", fmt.Sprint("c", n), "0"))
				r.left[fmt.Sprint(services, " default/c", n)] = true
				r.restart(options)
				r.settle(10 * time.Minute)
				require.Error(t, r.agree(kinds...), "nobody has told of the deletions")
				for _, kind := range kinds {
					r.backend.lose(kind, "default", fmt.Sprint("c", 3*n-1)) // of this the new client has told
					r.backend.reconcile(kind, false)
				}
				r.settle(10 * time.Minute)
				require.NoError(t, r.agree(kinds...))
				require.Contains(t, r.backend.rows(), fmt.Sprint(services, " default/c", n), "it exists and is not selected")

				r.backend.heard()
				for _, kind := range kinds {
					r.backend.reconcile(kind, false)
				}
				r.settle(10 * time.Minute)
				require.Empty(t, r.backend.heard(), "there is nothing to tell")
				require.Empty(t, r.backend.faults)
				r.stop()
			})
		})
	}
}

// TestReconciliationAnswers: ids and depths, and what is not sent.
func TestReconciliationAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cluster.Put(configmaps, doc(configmaps, "default", "a", "1"))
		r.cluster.Put(configmaps, doc(configmaps, "default", "b", "1"))
		r.cluster.Put(configmaps, doc(configmaps, "excluded", "e", "1"))
		r.start()
		r.settle(time.Minute)
		r.backend.heard()
		say := func(batch synchronizer.Message) []string {
			batch.Event, batch.Depth = synchronizer.EventBatch, max(batch.Depth, 2)
			r.backend.link.down <- batch
			r.settle(time.Minute)
			return r.backend.heard()
		}
		item := func(kind synchronizer.Kind, namespace, name string, version int64, sum string) synchronizer.Message {
			return synchronizer.Message{Event: synchronizer.EventVerify, Kind: kind, Namespace: namespace, Name: name, ResourceVersion: version, Checksum: sum}
		}
		stored := r.backend.objects[configmaps.String()+" default/a"]
		sum, err := checksum.ObjectV1(stored.body)
		require.NoError(t, err)
		version := versionIn(r.backend.objects[configmaps.String()+" default/b"].body)

		whole := synchronizer.Message{BatchType: wire.Reconciliation, Kind: configmaps, MsgID: "m"}
		whole.Items = []synchronizer.Message{
			item(configmaps, "default", "a", 9999, sum), item(configmaps, "default", "b", version, "wrong"),
			item(configmaps, "excluded", "e", 0, ""), item(configmaps, "excluded", "never", 0, ""),
		}
		require.Empty(t, say(whole), "another version with the same checksum; the same version; excluded")
		whole.Items[0].ResourceVersion = 0
		whole.Items = append(whole.Items[:2], item(configmaps, "default", "gone", 1, ""), item(configmaps, "", "synchronizer%sentinel", 0, ""))
		require.ElementsMatch(t, []string{"DeleteObject /v1/configmaps default/gone", "DeleteObject /v1/configmaps /synchronizer%sentinel", "PutObject /v1/configmaps default/a"}, say(whole))
		depths := r.backend.depths[len(r.backend.depths)-3:]
		require.Equal(t, []int{3, 3, 3}, depths)

		require.Empty(t, say(synchronizer.Message{BatchType: wire.Reconciliation, Kind: widgets, MsgID: "m"}))
		require.Equal(t, []string{"Batch reconciliation"}, r.backend.dropped(synchronizer.DropNotConfigured))
		require.Empty(t, say(synchronizer.Message{BatchType: "later", Kind: configmaps, MsgID: "m"}))
		require.Empty(t, say(synchronizer.Message{BatchType: wire.Reconciliation, Kind: configmaps, MsgID: "m", Items: []synchronizer.Message{
			item(widgets, "default", "x", 0, ""),
			{Event: synchronizer.EventPut, Kind: configmaps, Namespace: "default", Name: "y"},
			item(configmaps, "default", "a", versionIn(stored.body), ""), item(configmaps, "default", "b", version, ""),
		}}))
		require.Len(t, r.backend.dropped(synchronizer.DropUnsupported), 3)
		require.Empty(t, say(synchronizer.Message{BatchType: wire.Reconciliation, Kind: configmaps, MsgID: "m", Depth: 8}))
		require.Equal(t, []string{"/v1/configmaps /*: a reconciliation"}, r.backend.dropped(synchronizer.DropTooDeep))

		get := synchronizer.Message{Event: synchronizer.EventGet, Kind: configmaps, Namespace: "default", Name: "a"}
		require.Equal(t, []string{"PutObject /v1/configmaps default/a"}, say(synchronizer.Message{Kind: configmaps, MsgID: "m", Items: []synchronizer.Message{get, {Event: synchronizer.EventPing}}}))
		require.Equal(t, 3, r.backend.depths[len(r.backend.depths)-1])
		r.stop()
	})
}

// TestB003HalfFilledCacheAfterRestart: a client that cannot list a kind yet knows
// nothing of what is absent.
func TestB003HalfFilledCacheAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var options Options
		r := newRig(t, func(o *Options) { options = *o })
		for i := range 5 {
			r.cluster.Put(configmaps, doc(configmaps, "default", fmt.Sprint("c", i), "1"))
			r.cluster.Put(deployments, doc(deployments, "default", fmt.Sprint("d", i), "1"))
		}
		r.start()
		r.settle(time.Minute)
		require.NoError(t, r.agree(configmaps, deployments))
		deleted := func() []string {
			return slices.DeleteFunc(r.backend.heard(), func(s string) bool { return !strings.HasPrefix(s, "DeleteObject") })
		}

		// Try: restart the client against an API server that answers LIST for one kind
		// with 503, and send a reconciliation naming 5 known objects of it at once.
		r.stop()
		r.cluster.FailList(configmaps, errors.New("503 Service Unavailable"))
		r.cluster.Delete(deployments, "default", "d4")
		r.cluster.Delete(configmaps, "default", "c4")
		r.restart(options)
		r.backend.heard()
		r.backend.reconcile(configmaps, false)
		r.backend.reconcile(deployments, false)
		r.settle(5 * time.Minute)
		require.Equal(t, []string{"DeleteObject apps/v1/deployments default/d4"}, deleted(), "Right: no ObjectDeleted for that kind; other kinds reconcile normally")
		require.NotContains(t, r.backend.rows(), fmt.Sprint(deployments, " default/d4"))
		require.Len(t, r.backend.rows(), 9)

		// Then: with a 20 s delay.
		release := r.cluster.Hold(kubefake.VerbList, configmaps)
		r.cluster.FailList(configmaps, nil)
		r.settle(time.Minute)
		require.Equal(t, 1, r.cluster.Held(kubefake.VerbList, configmaps))
		r.backend.reconcile(configmaps, false)
		r.settle(20 * time.Second)
		require.Empty(t, deleted(), "Right: not until a complete, successful list has been made")

		release()
		r.settle(time.Minute)
		require.Equal(t, "DeleteObject /v1/configmaps default/c4", deleted()[0], "the reconciliation that waited")
		require.NoError(t, r.agree(configmaps, deployments))
		r.backend.reconcile(configmaps, false)
		r.settle(time.Minute)
		require.Empty(t, r.backend.heard(), "Right: when LIST works again the next reconciliation is clean")
		require.NoError(t, r.agree(configmaps, deployments))
		require.Empty(t, r.backend.faults)
		r.stop()
	})
}
