// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/api"
	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
	"synchronizer/test/kubetest"
)

var (
	replicaSets = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "replicasets"}
	batchJobs   = synchronizer.Kind{Group: "batch", Version: "v1", Resource: "jobs"}
	cronJobs    = synchronizer.Kind{Group: "batch", Version: "v1", Resource: "cronjobs"}
)

// ref is an object of a world.
type ref struct {
	kind synchronizer.Kind
	name string
}

// family is what stands in a cluster with a rollout and a nightly job: objects that
// users make, and those that controllers make of them. There is no controller here.
type family struct {
	*world
	carried, made []ref
}

func newFamily(t *testing.T) *family {
	t.Helper()
	f := &family{world: newWorld(t, shared, deployments, replicaSets, pods, batchJobs, cronJobs)}
	f.world.create(deployments, "web")
	f.carried = append(f.carried, ref{deployments, "web"})
	f.make(replicaSets, "alone", nil)
	f.make(replicaSets, "web-1", f.owner("apps/v1", "Deployment", deployments, "web"))
	f.make(pods, "alone", nil)
	for _, name := range []string{"web-1-a", "web-1-b", "web-1-c"} {
		f.makePod(name)
	}
	f.make(batchJobs, "alone", nil)
	f.make(cronJobs, "nightly", nil)
	f.make(batchJobs, "nightly-1", f.owner("batch/v1", "CronJob", cronJobs, "nightly"))
	return f
}

func (f *family) owner(version, kind string, of synchronizer.Kind, name string) map[string]any {
	return map[string]any{"apiVersion": version, "kind": kind, "name": name, "uid": f.uid(of, name), "controller": true}
}

// makePod makes one as the replica set does.
func (f *family) makePod(name string) {
	f.t.Helper()
	f.make(pods, name, f.owner("apps/v1", "ReplicaSet", replicaSets, "web-1"))
}

// make creates an object; without an owner it is one that a user made.
func (f *family) make(kind synchronizer.Kind, name string, owner map[string]any) {
	f.t.Helper()
	labels := map[string]any{"app": name}
	metadata := map[string]any{"name": name, "labels": labels, "annotations": map[string]any{"revision": "0"}}
	container := map[string]any{"containers": []any{map[string]any{"name": "main", "image": "registry.example.org/main:1"}}}
	once := map[string]any{"containers": container["containers"], "restartPolicy": "Never"}
	specs := map[synchronizer.Kind]any{
		pods:        container,
		replicaSets: map[string]any{"replicas": 3, "selector": map[string]any{"matchLabels": labels}, "template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": container}},
		batchJobs:   map[string]any{"template": map[string]any{"spec": once}},
		cronJobs:    map[string]any{"schedule": "0 3 * * *", "jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": once}}}},
	}
	kinds := map[synchronizer.Kind]string{pods: "Pod", replicaSets: "ReplicaSet", batchJobs: "Job", cronJobs: "CronJob"}
	if owner == nil {
		f.carried = append(f.carried, ref{kind, name})
	} else {
		f.made = append(f.made, ref{kind, name})
		metadata["ownerReferences"] = []any{owner}
	}
	text, err := json.Marshal(map[string]any{"apiVersion": kind.GroupVersion(), "kind": kinds[kind], "metadata": metadata, "spec": specs[kind]})
	require.NoError(f.t, err)
	_, err = f.cluster.Do(f.t.Context(), http.MethodPost, f.path(kind, ""), "", text)
	require.NoError(f.t, err)
}

func texts(of ...ref) []string {
	list := make([]string, len(of))
	for i, r := range of {
		list[i] = r.kind.Resource + "/" + r.name
	}
	slices.Sort(list)
	return list
}

// rows are the objects that are stored.
func (f *family) rows(b *backend) []string {
	f.t.Helper()
	set, err := b.stored(f.t.Context(), server.LocalAccount, f.name)
	require.NoError(f.t, err)
	var list []ref
	for key := range set {
		list = append(list, ref{key.Kind, key.Name})
	}
	return texts(list...)
}

func (f *family) become(b *backend, want []string) {
	f.t.Helper()
	eventually(f.t, "the objects are stored", func() bool { return len(f.rows(b)) == len(want) })
	require.Equal(f.t, want, f.rows(b))
}

// startRelated runs a client with or without what other workloads make.
func (f *family) startRelated(to target, include bool) *agent {
	f.t.Helper()
	c, _, err := config.LoadClient(config.Env{ConfigDir: f.configFile(to)})
	require.NoError(f.t, err)
	c.InCluster.IncludeChildWorkloads = include
	p := app.NewProcess(newLog(f.t, "client"))
	opened, err := client.Open(f.t.Context(), p, c, kube.LoadOptions{Flag: f.kubeconfig}, false)
	require.NoError(f.t, err)
	a := &agent{registry: p.Registry}
	a.done, a.stop = background(f.t, "client", opened.Run)
	return a
}

func (a *agent) dropped(reason synchronizer.DropReason) int {
	return int(counter(a.registry, "synchronizer_drops_total", map[string]string{"reason": string(reason)}))
}

// ask lets the backend ask for objects, and returns when each was answered: with
// the object, or with a drop that is counted.
func (f *family) ask(b *backend, client *agent, of []ref, sent bool) {
	f.t.Helper()
	want, superfluous := client.statements(), client.dropped(synchronizer.DropSuperfluousGet)
	for _, r := range of {
		b.say(f.t, f.world, synchronizer.Message{Event: synchronizer.EventGet, Kind: r.kind, Name: r.name})
	}
	if sent {
		want["PutObject"] += len(of)
		eventually(f.t, "they are sent", func() bool { return client.frames("sent", "PutObject") >= want["PutObject"] })
	} else {
		superfluous += len(of)
		eventually(f.t, "they are not sent, and that is counted", func() bool { return client.dropped(synchronizer.DropSuperfluousGet) >= superfluous })
	}
	require.Equal(f.t, want, client.statements())
	require.Equal(f.t, superfluous, client.dropped(synchronizer.DropSuperfluousGet))
}

// TestB013SameObjectsOnAllPaths: what a workload makes is left out by list, watch,
// GetObject and reconciliation alike.
func TestB013SameObjectsOnAllPaths(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	f := newFamily(t)
	b := startBackend(t, t.TempDir(), keyed)
	client := f.startRelated(to(b), false)
	f.become(b, texts(f.carried...)) // by the list

	f.makePod("web-1-d")
	f.change(pods, "web-1-a")
	f.delete(pods, "web-1-d")
	f.made = slices.DeleteFunc(f.made, func(r ref) bool { return r.name == "web-1-d" })
	f.make(pods, "later", nil)
	f.become(b, texts(f.carried...)) // by the watch
	require.Zero(t, client.frames("sent", "ObjectDeleted"))
	require.Equal(t, len(f.carried), client.frames("sent", "NewChecksum"))

	for range 3 {
		f.reconcileSaying(b, client, 0)
	}
	require.Equal(t, texts(f.carried...), f.rows(b))

	f.ask(b, client, f.made, false)
	f.ask(b, client, f.carried, true)
	f.reconcileSaying(b, client, 0)
	require.Equal(t, texts(f.carried...), f.rows(b))
	f.agree(b)
	client.runs(t)
}

// TestB013RowsOfAnEarlierClient: a row of what a workload made, told by a client that
// was to, stays as it is, however often it is reconciled or asked for. A
// reconciliation tells that the object was deleted, once.
func TestB013RowsOfAnEarlierClient(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	f := newFamily(t)
	b := startBackend(t, t.TempDir(), keyed)
	earlier := f.startRelated(to(b), true)
	all := texts(slices.Concat(f.carried, f.made)...)
	f.become(b, all)
	earlier.stop()
	rows := func() (list []*api.Object) {
		for _, r := range f.made {
			list = append(list, b.object(t, f.world, r.kind, r.name))
		}
		return list
	}
	before := rows()

	client := f.startRelated(to(b), false)
	eventually(t, "it has told all that it carries", func() bool { return client.frames("sent", "NewChecksum") == len(f.carried) })
	for _, r := range f.made {
		f.change(r.kind, r.name)
	}
	for range 3 {
		f.reconcileSaying(b, client, 0)
	}
	require.Positive(t, client.dropped(synchronizer.DropOutOfScope), "what is left out is counted")
	f.ask(b, client, f.made, false)
	require.Equal(t, before, rows())

	f.delete(pods, "web-1-b")
	f.reconcileSaying(b, client, 1)
	require.True(t, b.deleted(f.world, pods, "web-1-b"))
	for range 2 {
		f.reconcileSaying(b, client, 0)
	}
	for i, row := range rows() {
		if f.made[i].name != "web-1-b" {
			require.Equal(t, before[i], row)
		}
	}
	require.Equal(t, slices.DeleteFunc(all, func(text string) bool { return text == "pods/web-1-b" }), f.rows(b))
	client.runs(t)
}
