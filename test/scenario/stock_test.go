// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/app/server"
	"synchronizer/internal/diff"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/patch"
	"synchronizer/test/kubetest"
)

// stockObject is an object as a client in the field would send it.
func stockObject(kind synchronizer.Kind, name string, revision int) stock.Object {
	return stock.Object{Kind: kind, Namespace: "default", Name: name, JSON: fmt.Sprintf(
		`{"apiVersion":%q,"metadata":{"annotations":{"revision":"%d"},"name":%q,"namespace":"default","resourceVersion":"%d","uid":"uid-of-%s"},"spec":{"list":["b","a"],"none":{}}}`,
		kind.GroupVersion(), revision, name, 1000+revision, name)}
}

// A client in the field, against our server: whatever way an object takes, whole
// or as patches, the row is what the client has.
func TestStockClient(t *testing.T) { overQueues(t, testStockClient) }

func testStockClient(t *testing.T, on queueSetup) {
	b := startChanged(t, t.TempDir(), keyed, on)
	const cluster = "field"
	kinds := map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy, deployments: stock.Patch}
	state := map[diff.Key]stock.Object{}
	options := func() stock.ClientOptions {
		o := stock.ClientOptions{Account: server.LocalAccount, Cluster: cluster, AccessKey: b.accessKey, Kinds: kinds}
		for _, object := range state {
			o.Objects = append(o.Objects, object)
		}
		return o
	}
	put := func(o stock.Object) {
		state[diff.Key{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}] = o
	}
	agree := func() {
		t.Helper()
		want := diff.Set{}
		for key, o := range state {
			want[key] = diff.Entry{UID: "uid-of-" + o.Name, Checksum: stock.Checksum(o.JSON)}
		}
		eventually(t, "the store has what the client has", func() bool {
			stored, err := b.stored(t.Context(), server.LocalAccount, cluster)
			return err == nil && diff.Compare(want, stored).Equal()
		})
	}
	const objects = 20
	for i := range objects {
		put(stockObject(configMaps, numbered("a", i), 0))
		put(stockObject(deployments, numbered("b", i), 0))
	}
	client := stock.Connect(t, "ws://"+b.clients, options())
	agree()

	for revision := 1; revision <= 3; revision++ {
		for i := range objects / 2 {
			for _, o := range []stock.Object{stockObject(configMaps, numbered("a", i), revision), stockObject(deployments, numbered("b", i), revision)} {
				put(o)
				client.Set(o)
			}
		}
	}
	agree()
	sent := map[int]int{}
	for _, f := range client.Sent() {
		sent[*f.Event]++
	}
	t.Logf("%d checksums, %d whole objects, %d patches", sent[stock.NewChecksum], sent[stock.PutObject], sent[stock.PatchObject])
	require.Positive(t, sent[stock.PatchObject])

	for _, kind := range []synchronizer.Kind{configMaps, deployments} {
		name := numbered(map[synchronizer.Kind]string{configMaps: "a", deployments: "b"}[kind], 0)
		delete(state, diff.Key{Kind: kind, Namespace: "default", Name: name})
		client.Delete(kind, "default", name)
	}
	agree()

	// It goes without a word, its cluster changes meanwhile, and it starts again:
	// with baselines that it has lost, and only what differs is asked for.
	client.Cut()
	put(stockObject(deployments, numbered("b", 1), 7))
	put(stockObject(deployments, "new", 0))
	client = stock.Connect(t, "ws://"+b.clients, options())
	agree()
	o := stockObject(deployments, numbered("b", 2), 8) // it has nothing to make a patch from
	put(o)
	client.Set(o)
	agree()
	asked := 0
	for _, f := range client.Received() {
		if f.Event != nil && *f.Event == stock.GetObject {
			asked++
		}
	}
	require.Equal(t, 2, asked)
}

// Our client, against a server in the field: it says hello with a Ping, and what
// it is asked for it sends exactly as the cluster has it.
func TestStockServer(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps, deployments)
	w.create(configMaps, "settings")
	w.create(deployments, "web")
	field := stock.NewServer(t)
	client := w.startClient(target{address: strings.TrimPrefix(field.URL, "http://")})
	session := field.Next()
	require.Equal(t, w.name, session.Header.Get("X-API-CLUSTER"))
	require.Regexp(t, `^v\d+\.\d+\.\d+`, session.Header.Get("X-SYNCHRONIZER-VERSION"))
	first := session.Wait(func(*stock.Frame) bool { return true })
	require.Equal(t, stock.Ping, *first.Event)

	told := diff.Set{}
	bodies := map[string]string{}
	take := func(f stock.Frame, kind synchronizer.Kind) {
		t.Helper()
		if *f.Event == stock.PatchObject {
			whole, err := patch.ApplyV1([]byte(bodies[f.Name]), []byte(f.Patch))
			require.NoError(t, err)
			f.Object = string(whole)
		}
		bodies[f.Name] = f.Object
		var o struct {
			Metadata struct{ UID string }
		}
		require.NoError(t, json.Unmarshal([]byte(f.Object), &o))
		require.Equal(t, stock.Checksum(f.Object), f.Checksum, "the field's checksum of what was sent")
		told[diff.Key{Kind: kind, Namespace: f.Namespace, Name: f.Name}] = diff.Entry{UID: o.Metadata.UID, Checksum: f.Checksum}
	}
	fetch := func(kind synchronizer.Kind, name string) {
		t.Helper()
		offered := session.WaitFor(stock.NewChecksum, kind, w.namespace, name)
		require.Equal(t, 1, offered.Depth)
		require.NoError(t, session.Send(fmt.Appendf(nil,
			`{"ResourceVersion":0,"BaseObject":"","Depth":3,"Event":4,"Kind":{"Group":%q,"Version":%q,"Resource":%q,"AdditionalProperties":null},"MsgId":%q,"Name":%q,"Namespace":%q,"AdditionalProperties":null}`,
			kind.Group, kind.Version, kind.Resource, offered.MsgId, name, w.namespace)))
		whole := session.WaitFor(stock.PutObject, kind, w.namespace, name)
		require.Equal(t, 4, whole.Depth)
		require.Equal(t, offered.MsgId, whole.MsgId)
		require.Equal(t, offered.Checksum, whole.Checksum)
		take(whole, kind)
	}
	agree := func() {
		t.Helper()
		live, err := w.live(nil)
		require.NoError(t, err)
		require.Equal(t, live, told)
	}
	fetch(configMaps, "settings")
	fetch(deployments, "web")
	agree()

	w.change(deployments, "web")
	take(session.Wait(func(f *stock.Frame) bool {
		return f.Depth == 1 && (f.Is(stock.PutObject, deployments, w.namespace, "web") || f.Is(stock.PatchObject, deployments, w.namespace, "web"))
	}), deployments)
	w.delete(configMaps, "settings")
	session.WaitFor(stock.ObjectDeleted, configMaps, w.namespace, "settings")
	delete(told, diff.Key{Kind: configMaps, Namespace: w.namespace, Name: "settings"})
	agree()

	// The server goes as one in the field does, and a new one knows nothing.
	session.Cut()
	session = field.Next()
	first = session.Wait(func(*stock.Frame) bool { return true })
	require.Equal(t, stock.Ping, *first.Event)
	clear(told)
	fetch(deployments, "web") // it may have been lost
	agree()
	client.runs(t)
}
