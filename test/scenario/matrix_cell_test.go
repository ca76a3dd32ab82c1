// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	agentpkg "synchronizer/internal/agent"
	"synchronizer/internal/api"
	"synchronizer/internal/app/server"
	"synchronizer/internal/checksum"
	"synchronizer/internal/kube"
	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/faultproxy"
	"synchronizer/test/kubetest/storageapi"
)

// Kinds of the columns.
var (
	gadgets  = synchronizer.Kind{Group: "matrix.example.org", Version: "v1", Resource: "widgets"}
	profiles = synchronizer.Kind{Group: storageapi.Group, Version: storageapi.Version, Resource: "containerprofiles"}
)

// columns are the ways in which an API server comes by a kind.
var columns = []struct {
	name string
	kind synchronizer.Kind
}{
	{"built-in (`configmaps`)", configMaps},
	{"custom resource (`widgets`)", gadgets},
	{"aggregated API (`containerprofiles`)", profiles},
}

// cell is one fault at one kind: a client of its own with a proxy of its own
// between it and the API server. All cells share that, and the backend.
type cell struct {
	*world
	fault   *fault
	kind    synchronizer.Kind
	storage *storageapi.Server // serves the aggregated API
	backend *backend
	proxy   *faultproxy.Proxy
	client  *agent
	log     *lines // of the client

	counted  float64 // of the fault's counter, before it struck
	asked    int     // requests, before it struck
	struckAt time.Time
}

// baseObjects are there before the client is.
const baseObjects = 6

func newCell(t *testing.T, cluster *kubetest.Cluster, storage *storageapi.Server, b *backend, f *fault, kind synchronizer.Kind) *cell {
	c := &cell{world: newWorld(t, cluster, kind), fault: f, kind: kind, storage: storage, backend: b, proxy: faultproxy.New(t, cluster)}
	if kind == profiles {
		c.reader = wholeReader{c.reader, c.namespace}
	}
	for _, name := range names("base", 0, baseObjects) {
		c.put(name)
	}
	c.start()
	return c
}

func (c *cell) start() {
	c.log = &lines{}
	options := kube.Options{Config: c.proxy.RESTConfig()}
	if c.fault.options != nil {
		c.fault.options(&options)
	}
	c.client = c.startWired(c.backend, wiring{
		kube: options, clock: c.fault.clock, log: c.log,
		relist: 24 * time.Hour, // what is missed shall not come by chance
		kinds:  []agentpkg.KindConfig{{Kind: c.kind, Strategy: agentpkg.StrategyCopy, Hollow: c.kind == profiles}},
	})
}

// put creates an object, or gives it the next revision if it was made by put.
func (c *cell) put(name string) {
	c.t.Helper()
	if c.kind == profiles {
		body := fmt.Appendf(nil, `{"metadata":{"annotations":{"revision":"%d"}},"spec":{"architectures":["amd64"],"containers":[{"name":%q}]}}`, c.revision.Add(1), name)
		_, err := c.storage.Put(c.kind.Resource, c.namespace, name, body)
		require.NoError(c.t, err)
		return
	}
	if err := c.tryCreate(c.t.Context(), c.kind, name, ""); err == nil {
		return
	}
	c.change(c.kind, name)
}

func (c *cell) remove(names ...string) {
	c.t.Helper()
	if c.kind != profiles {
		c.delete(c.kind, names...)
		return
	}
	for _, name := range names {
		require.NoError(c.t, c.storage.Delete(c.kind.Resource, c.namespace, name))
	}
}

// writeBefore and writeDuring create, change and delete, the second one also an
// object that comes back under its name.
func (c *cell) writeBefore() {
	c.put("before")
	c.put(numbered("base", 0))
	c.remove(numbered("base", 1))
}

func (c *cell) writeDuring() {
	c.put("during")
	c.put(numbered("base", 0))
	c.put(numbered("base", 2))
	c.remove(numbered("base", 3), numbered("base", 4))
	c.put(numbered("base", 4))
}

// watches matches those of the cell's kind.
func (c *cell) watches() faultproxy.Match { return faultproxy.Watch(c.resource()) }

func (c *cell) lists() faultproxy.Match { return faultproxy.List(c.resource()) }

func (c *cell) resource() string {
	if c.kind.Group == "" {
		return c.kind.Resource
	}
	return c.kind.Resource + "." + c.kind.Group
}

// rewatch ends the watch in order, so that the next one comes.
func (c *cell) rewatch() { c.strike(faultproxy.End{}) }

// strike hits the watch that is open; there is one, or soon will be again.
func (c *cell) strike(f faultproxy.Fault) {
	c.t.Helper()
	eventually(c.t, "a watch is open", func() bool { return c.proxy.Strike(c.watches(), f) > 0 })
}

// count is the counter by which users see the fault.
func (c *cell) count() float64 { return counter(c.client.registry, c.fault.counter, c.fault.labels) }

// requests is how often the client has asked for anything of the kind.
func (c *cell) requests() int { return len(c.proxy.Requests(faultproxy.Request("", c.resource()))) }

func (c *cell) begin() {
	c.counted, c.asked, c.struckAt = c.count(), c.requests(), time.Now()
	c.writeBefore()
	c.fault.strike(c)
	c.writeDuring()
}

// struck waits until the fault has happened, as the proxy and the client see it.
func (c *cell) struck(t *testing.T) {
	c.t = t
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of the client:\n%s", c.log.tail(40))
		}
	})
	struckAt := c.struckAt
	eventually(c.t, "the proxy has struck with "+c.fault.name, func() bool {
		if c.proxy.Count(c.fault.proof) > 0 {
			return true
		}
		// A watch that ends by itself may have done so before anything came that the
		// fault could hit.
		if c.fault.ends > 0 && time.Since(struckAt) > 2*c.fault.ends {
			struckAt = time.Now()
			c.fault.strike(c)
			c.put(numbered("base", 0))
		}
		return false
	})
	if c.fault.lasting != nil {
		c.fault.lasting(c)
	}
	eventually(c.t, "the client has counted "+c.fault.name, func() bool { return c.count() > c.counted })
	if c.fault.then != nil {
		c.fault.then(c)
	}
}

// settle waits until store and cluster agree, behind a last object too, and
// returns what stands in the table.
func (c *cell) settle(t *testing.T) string {
	c.agree(c.backend)
	c.put("last")
	c.agree(c.backend)
	bodies := 0
	query := url.Values{"account": {server.LocalAccount}, "cluster": {c.name}, "full": {"true"}}
	require.NoError(t, c.backend.api.EachPage(t.Context(), query, func(page []api.Object) error {
		for i := range page {
			sum, err := checksum.ObjectV1(page[i].Object)
			require.NoError(t, err)
			require.Equal(t, page[i].Checksum, sum, page[i].Name)
		}
		bodies += len(page)
		return nil
	}))
	require.Equal(t, baseObjects+1, bodies, "3 created, 2 deleted")
	c.client.runs(t)

	requests := c.requests() - c.asked
	require.LessOrEqual(t, requests, c.bound(), "requests")
	return fmt.Sprintf("counter=%.0f requests=%d equal", c.count()-c.counted, requests)
}

// bound is how many requests may be made: some for the fault, one per silence
// for a client that is impatient, and for hollow objects a GET of each that has
// changed and as many again.
func (c *cell) bound() int {
	bound := 8 + c.fault.more
	options := kube.Options{}
	if c.fault.options != nil {
		c.fault.options(&options)
	}
	for _, limit := range []time.Duration{options.WatchSilence, options.WatchTime} {
		if limit > 0 {
			bound += int(time.Since(c.struckAt) / limit)
		}
	}
	if c.kind == profiles {
		bound += 2 * 8
	}
	return bound
}

// wholeReader lists a hollow kind in one namespace with the bodies of its objects.
type wholeReader struct {
	synchronizer.Cluster
	namespace string
}

func (r wholeReader) List(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (string, error) {
	var found []string
	version, err := r.Cluster.List(ctx, kind, func(o synchronizer.Object) error {
		if o.Namespace == r.namespace {
			found = append(found, o.Name)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	slices.Sort(found)
	for _, name := range found {
		o, err := r.Get(ctx, kind, r.namespace, name)
		if err != nil {
			return "", err
		}
		if err := each(o); err != nil {
			return "", err
		}
	}
	return version, nil
}
