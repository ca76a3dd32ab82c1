// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/queue"
)

var pods = synchronizer.Kind{Version: "v1", Resource: "pods"}

// request is the record of a server that asks for a reconciliation.
func request(t require.TestingT, msgID string) synchronizer.Record {
	m := synchronizer.Message{Event: synchronizer.EventReconciliation, ClusterID: cluster, MsgID: msgID, ServerInitiated: true}
	enc := queue.Encoder{Encoding: queue.Compact, Producer: queue.Server}
	r, err := enc.Encode(&m, queue.Extra{Link: "v1"})
	require.NoError(t, err)
	return r
}

// about makes a record speak of another kind.
func about(r synchronizer.Record, kind synchronizer.Kind) synchronizer.Record {
	for i := range r.Properties {
		switch p := &r.Properties[i]; p.Name {
		case queue.PropertyGroup:
			p.Value = kind.Group
		case queue.PropertyVersion:
			p.Value = kind.Version
		case queue.PropertyResource:
			p.Value = kind.Resource
		}
	}
	return r
}

// lists are the reconciliations among what was published, as text per kind.
func lists(t require.TestingT, messages []synchronizer.Message) map[string]string {
	result := map[string]string{}
	for _, m := range messages {
		if m.Event != synchronizer.EventReconciliation {
			continue
		}
		require.True(t, m.ServerInitiated)
		require.Len(t, m.Known, 1, "one record per kind")
		for kind, known := range m.Known {
			var texts []string
			for _, k := range known {
				texts = append(texts, fmt.Sprintf("%s/%s@%d", k.Namespace, k.Name, k.ResourceVersion))
			}
			require.NotContains(t, result, kind.String())
			result[kind.String()] = strings.Join(texts, " ")
		}
	}
	return result
}

// A request is answered with all that is known, by one record per kind, behind
// what the client said before it.
func TestReconciliationListsWhatIsKnown(t *testing.T) {
	r := newRig(t, nil)
	doc := body("web", "u1", 1)
	opaque := []byte(strings.Replace(string(body("opaque", "u2", 1)), `"101"`, `"99999999999999999999"`, 1))
	r.deliver(t, connected(t, "s1"),
		put(t, "s1", 1, "web", doc), put(t, "s1", 2, "opaque", opaque), put(t, "s1", 3, "gone", body("gone", "u3", 1)), remove(t, "s1", 4, "gone"),
		about(put(t, "s1", 5, "pod", body("pod", "u4", 7)), pods),
		about(remove(t, "s1", 6, "cm"), synchronizer.Kind{Version: "v1", Resource: "configmaps"}),
		request(t, "m1"))
	answers := r.questions(t)
	require.Equal(t, map[string]string{
		"apps/v1/deployments": "default/opaque@0 default/web@101",
		"/v1/pods":            "default/pod@107",
		"/v1/configmaps":      "/" + sentinelName + "@0", // never an empty list
	}, lists(t, answers))
	require.Len(t, answers, 3)
	for _, m := range answers {
		require.Equal(t, "m1", m.MsgID)
		require.Zero(t, m.Depth, "copied")
		require.Equal(t, cluster, m.ClusterID)
		for _, known := range m.Known {
			for _, k := range known {
				if k.Name == "web" {
					require.Equal(t, sum(t, doc), k.Checksum)
				}
			}
		}
	}

	// A redelivery is not answered again, another request is; two at once are one.
	r.deliver(t, request(t, "m1"))
	require.Empty(t, r.questions(t))
	r.deliver(t, request(t, "m2"), request(t, "m3"))
	answers = r.questions(t)
	require.Len(t, answers, 3)
	require.Equal(t, "m3", answers[0].MsgID)
	require.Zero(t, r.drops.of(synchronizer.DropUnsupported))
}

// What is no request is counted: a list on the way up, and one for a cluster that
// is not known is not answered.
func TestReconciliationsThatAreNone(t *testing.T) {
	r := newRig(t, nil)
	list := synchronizer.Message{
		Event: synchronizer.EventReconciliation, ClusterID: cluster, MsgID: "m", ServerInitiated: true,
		Known: map[synchronizer.Kind][]synchronizer.KnownObject{deployments: {{Name: "web"}}},
	}
	enc := queue.Encoder{Encoding: queue.Compact, Producer: queue.Server}
	record, err := enc.Encode(&list, queue.Extra{})
	require.NoError(t, err)
	r.deliver(t, request(t, "nobody"), record)
	require.Empty(t, r.questions(t))
	require.Equal(t, 1, r.drops.of(synchronizer.DropUnsupported))
}

// Requests as servers in the field write them.
func TestRecordedRequests(t *testing.T) {
	f, err := os.Open("../queue/testdata/records-pulsar.jsonl")
	require.NoError(t, err)
	defer f.Close()
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 16<<20)
	seen := map[string]bool{}
	for scanner.Scan() {
		var line struct {
			Direction, Key string
			Properties     map[string]string
			Payload        json.RawMessage
		}
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &line))
		event := line.Properties["event"]
		if line.Direction != "server->broker" || !strings.HasPrefix(event, "ReconciliationRequest") || seen[event] {
			continue
		}
		seen[event] = true
		t.Run(event, func(t *testing.T) {
			r := newRig(t, nil)
			record := synchronizer.Record{Key: line.Key, Payload: line.Payload}
			for name, value := range line.Properties {
				record.Properties = append(record.Properties, synchronizer.Property{Name: name, Value: value})
			}
			m, err := queue.Decode(&record)
			require.NoError(t, err)
			requests := requestsIn(&m)
			require.Len(t, requests, 1)
			// The cluster of the recording has one object.
			first := put(t, "s1", 1, "web", body("web", "u1", 1))
			for i := range first.Properties {
				switch p := &first.Properties[i]; p.Name {
				case queue.PropertyAccount:
					p.Value = requests[0].Account
				case queue.PropertyCluster:
					p.Value = requests[0].Cluster
				}
			}
			r.deliver(t, first, record)
			answers := r.questions(t)
			require.Equal(t, map[string]string{"apps/v1/deployments": "default/web@101"}, lists(t, answers))
			require.Equal(t, requests[0].ClusterID, answers[0].ClusterID)
			if requests[0].MsgID == "" { // of a batch
				require.NotEmpty(t, answers[0].MsgID)
				require.Equal(t, 1, answers[0].Depth)
			} else {
				require.Equal(t, requests[0].MsgID, answers[0].MsgID)
			}
		})
	}
	require.Len(t, seen, 2)
}

// The record that is written object by object is that which the queue's encoder
// makes of the whole list.
func TestListIsWrittenAsTheEncoderDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var known []synchronizer.KnownObject
		var rows fakeInventory
		name := rapid.OneOf(rapid.StringMatching(`[a-z<>&"\\%é]{1,12}`), rapid.String())
		for range rapid.IntRange(1, 5).Draw(rt, "objects") {
			k := synchronizer.KnownObject{
				Namespace: name.Draw(rt, "namespace"), Name: name.Draw(rt, "name"),
				ResourceVersion: rapid.Int64().Draw(rt, "version"), Checksum: rapid.StringMatching(`[0-9a-f]{0,64}`).Draw(rt, "checksum"),
			}
			known = append(known, k)
			rows = append(rows, synchronizer.Row{
				Key:             synchronizer.ObjectKey{ClusterID: cluster, Kind: deployments, Namespace: k.Namespace, Name: k.Name},
				ResourceVersion: fmt.Sprint(k.ResourceVersion), Checksum: k.Checksum,
			})
		}
		m := synchronizer.Message{
			Event: synchronizer.EventReconciliation, ClusterID: cluster, MsgID: "m", Depth: 2, ServerInitiated: true,
			Known: map[synchronizer.Kind][]synchronizer.KnownObject{deployments: known},
		}
		want, err := (&queue.Encoder{Encoding: queue.Field}).Encode(&m, queue.Extra{})
		require.NoError(rt, err)
		m.Known[deployments] = nil
		frame, err := (&queue.Encoder{Encoding: queue.Field}).Encode(&m, queue.Extra{})
		require.NoError(rt, err)
		before, ok := strings.CutSuffix(string(frame.Payload), listEnd)
		require.True(rt, ok)
		i := &Ingester{Options: Options{Inventory: rows}}
		var buf []byte
		count, err := i.appendList(t.Context(), &listing{ClusterKind: synchronizer.ClusterKind{ClusterID: cluster, Kind: deployments}}, &buf, []byte(before))
		require.NoError(rt, err)
		require.Equal(rt, len(known), count)
		require.Equal(rt, string(want.Payload), string(buf))
	})
}

// fakeInventory knows rows of one kind.
type fakeInventory []synchronizer.Row

func (f fakeInventory) Clusters(context.Context, synchronizer.ClusterID) ([]synchronizer.ClusterStatus, error) {
	return []synchronizer.ClusterStatus{{ClusterID: cluster, Kinds: []synchronizer.KindStatus{{Kind: pods}, {Kind: deployments}}}}, nil
}

func (f fakeInventory) Known(_ context.Context, of synchronizer.ClusterKind, each func(*synchronizer.Row) error) error {
	for i := range f {
		if f[i].Key.Kind != of.Kind {
			continue
		}
		if err := each(&f[i]); err != nil {
			return err
		}
	}
	return nil
}

// A list that no record can hold is named and counted, and ends nothing: not in
// two parts, because what a list leaves out is offered again.
func TestListThatIsTooLarge(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	var rows fakeInventory
	for range 70 {
		rows = append(rows, synchronizer.Row{Key: synchronizer.ObjectKey{Kind: pods, Name: long}})
	}
	rows = append(rows, synchronizer.Row{Key: synchronizer.ObjectKey{Kind: deployments, Namespace: "n", Name: "web"}, ResourceVersion: "3"})
	r := newRigAt(t, t.TempDir()+"/test.db", func(o *Options) { o.Inventory = rows })
	r.deliver(t, request(t, "m1"))
	require.Equal(t, map[string]string{"apps/v1/deployments": "n/web@3"}, lists(t, r.questions(t)))
	require.Equal(t, 1, r.drops.of(synchronizer.DropTooLarge))
	require.Contains(t, r.drops.named[0], "ReconciliationRequest acc/c1 /v1/pods: a list of ")

	// The broker's limit may be lower.
	r.mu.Lock()
	r.publishErr = fmt.Errorf("publishing: %w", synchronizer.ErrTooLarge)
	r.mu.Unlock()
	r.deliver(t, request(t, "m2"))
	require.Equal(t, 3, r.drops.of(synchronizer.DropTooLarge))
}

// The answer of a client to the sentinel is no news of an object.
func TestSentinelLeavesNoTombstone(t *testing.T) {
	r := newRig(t, nil)
	r.deliver(t, connected(t, "s1"), remove(t, "s1", 1, sentinelName), put(t, "s1", 2, "web", body("web", "u", 1)))
	page, err := r.store.Objects(t.Context(), synchronizer.ObjectQuery{Deleted: true})
	require.NoError(t, err)
	require.Len(t, page.Rows, 1)
	require.Equal(t, "web", page.Rows[0].Key.Name)

	r.deliver(t, about(say(t, "s1", 3, synchronizer.Message{Event: synchronizer.EventDelete, Name: sentinelName}), pods))
	r.deliver(t, request(t, "m"))
	require.Equal(t, map[string]string{"apps/v1/deployments": "default/web@101", "/v1/pods": "/" + sentinelName + "@0"},
		lists(t, r.questions(t)), "a kind that the client has is listed from now on")
	page, err = r.store.Objects(t.Context(), synchronizer.ObjectQuery{Deleted: true})
	require.NoError(t, err)
	require.Len(t, page.Rows, 1)
}

// A reconciliation changes nothing by itself, whatever is stored and asked.
func TestReconciliationChangesNothing(t *testing.T) {
	r := newRig(t, nil)
	source, seq, run := "s1", uint64(0), 0
	dump := func(t require.TestingT) string {
		page, err := r.store.Objects(r.ctx, synchronizer.ObjectQuery{Deleted: true, Full: true, Limit: 10_000})
		require.NoError(t, err)
		text, err := json.Marshal(page.Rows)
		require.NoError(t, err)
		return string(text)
	}
	rapid.Check(t, func(t *rapid.T) {
		var batch []synchronizer.Record
		for range rapid.IntRange(0, 6).Draw(t, "statements") {
			seq++
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			kind := rapid.SampledFrom([]synchronizer.Kind{pods, deployments}).Draw(t, "kind")
			if rapid.Bool().Draw(t, "delete") {
				batch = append(batch, about(remove(t, source, seq, name), kind))
			} else {
				batch = append(batch, about(put(t, source, seq, name, body(name, "u", int(seq))), kind))
			}
		}
		if len(batch) > 0 {
			r.deliver(t, batch...)
		}
		before := dump(t)
		run++
		r.deliver(t, request(t, fmt.Sprint("m", run)))
		for _, m := range r.questions(t) {
			require.Equal(t, synchronizer.EventReconciliation, m.Event)
			for _, known := range m.Known {
				require.NotEmpty(t, known)
			}
		}
		require.Equal(t, before, dump(t))
	})
}
