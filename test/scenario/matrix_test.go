// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	agentpkg "synchronizer/internal/agent"
	"synchronizer/internal/kube"
	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/faultproxy"
	"synchronizer/test/kubetest/storageapi"
)

// fault is one row of the matrix.
type fault struct {
	name    string
	meaning string // for the page
	options func(*kube.Options)
	ends    time.Duration    // after which a watch ends by itself, in the cells of this fault
	clock   agentpkg.Clock   // nil: the system's
	strike  func(*cell)      // disturbs the watch, or the list
	proof   faultproxy.Fault // what the proxy's log must have
	lasting func(*cell)      // when the proxy has struck
	then    func(*cell)      // when the client has counted it
	// counter is the metric that tells users of the fault.
	counter string
	labels  map[string]string
	more    int // requests that it may cost beyond the usual
}

const (
	watchEnds = "synchronizer_kube_watch_ends_total"
	requested = "synchronizer_kube_requests_total"
	// retryAfter is what a server that is too busy asks for.
	retryAfter = 2 * time.Second
)

func because(reason string) map[string]string { return map[string]string{"reason": reason} }

func answered(verb, code string) map[string]string {
	return map[string]string{"verb": verb, "code": code}
}

func impatient(o *kube.Options) { o.WatchSilence = 2 * time.Second }

// striking hits the open watch.
func striking(f faultproxy.Fault) func(*cell) { return func(c *cell) { c.strike(f) } }

// answering hits the next n requests for a watch.
func answering(n int, f faultproxy.Fault) func(*cell) {
	return func(c *cell) {
		c.proxy.Arm(c.watches().Times(n), f)
		c.rewatch()
	}
}

// faults are the rows. Those that need the whole API server come last.
var faults = []*fault{
	{
		name: "cut", meaning: "the connection is reset in the middle of a watch",
		strike: striking(faultproxy.Cut{}), proof: faultproxy.Cut{},
		counter: watchEnds, labels: because("reset"),
	},
	{
		name: "half-close", meaning: "the server's direction of the connection ends without an end of TLS or HTTP",
		strike: striking(faultproxy.HalfClose{}), proof: faultproxy.HalfClose{},
		counter: watchEnds, labels: because("truncated"),
	},
	{
		name: "black hole", meaning: "a request for a watch is never answered",
		options: impatient,
		strike:  answering(1, faultproxy.BlackHole{}), proof: faultproxy.BlackHole{},
		counter: watchEnds, labels: because("unanswered"),
	},
	{
		name: "410 in stream", meaning: "a watch is answered 200 and then says that its version is too old",
		strike: striking(faultproxy.GoneInStream{}), proof: faultproxy.GoneInStream{},
		counter: watchEnds, labels: because("gone"),
	},
	{
		name: "410 as HTTP", meaning: "a watch is answered 410",
		strike: answering(1, faultproxy.Gone), proof: faultproxy.Gone,
		counter: requested, labels: answered("watch", "410"),
	},
	{
		name: "429 with Retry-After", meaning: "a watch is answered 429; the next one comes no earlier than it was told",
		strike: answering(1, faultproxy.TooManyRequests(retryAfter)), proof: faultproxy.TooManyRequests(retryAfter),
		then:    (*cell).waitedAsTold,
		counter: requested, labels: answered("watch", "429"),
	},
	{
		name: "500", meaning: "watches are answered 500, twice",
		strike: answering(2, faultproxy.InternalError), proof: faultproxy.InternalError,
		counter: requested, labels: answered("watch", "500"),
	},
	{
		name: "garbage line", meaning: "a watch gives a line that is not JSON",
		strike: striking(faultproxy.GarbageLine{}), proof: faultproxy.GarbageLine{},
		counter: watchEnds, labels: because("unreadable"),
	},
	{
		name: "expired continue token", meaning: "a list over pages is answered 410 at its second page",
		options: func(o *kube.Options) { o.PageSize = 25 },
		strike: func(c *cell) {
			c.proxy.Arm(c.lists().Continued().Times(1), faultproxy.ExpiredContinue)
			c.strike(faultproxy.GoneInStream{})
		},
		proof:   faultproxy.ExpiredContinue,
		counter: requested, labels: answered("list", "410"),
		more: 40, // pages, with the objects of all cells
	},
	{
		name: "bookmarks only", meaning: "a watch keeps back events and gives bookmarks behind them: no client can know; the next list finds what was kept back",
		options: func(o *kube.Options) { o.WatchTime = 3 * time.Second }, // the API server gives a bookmark 2 s before the end
		ends:    3 * time.Second,
		strike:  striking(faultproxy.BookmarksOnly{}), proof: faultproxy.BookmarksOnly{},
		lasting: func(c *cell) {
			if c.kind == profiles { // which gives no bookmark by itself, and to a watch that is open only
				eventually(c.t, "a bookmark arrives", func() bool {
					require.NoError(c.t, c.storage.Bookmark(c.kind.Resource))
					return c.count() > c.counted
				})
			}
		},
		then:    striking(faultproxy.GoneInStream{}),
		counter: "synchronizer_agent_events_total", labels: map[string]string{"type": "bookmark"},
	},
	{
		name: "silent watch", meaning: "a watch stays open on a connection that works, and says nothing",
		options: impatient,
		strike:  striking(faultproxy.Silent{}), proof: faultproxy.Silent{},
		counter: watchEnds, labels: because("silent"),
	},
	{
		name: "dead HTTP/2 connection", meaning: "the connection is open and no byte passes any more, not even a ping",
		options: func(o *kube.Options) { o.PingAfter, o.PingTimeout = time.Second, time.Second },
		strike:  striking(faultproxy.DeadConnection{}), proof: faultproxy.DeadConnection{},
		counter: watchEnds, labels: because("dead"),
	},
	compaction,
}

// compaction is a fault of the API server itself.
var compaction = &fault{
	name: "compaction", meaning: "the client is away (its watches are answered 500) while the storage forgets what happened, and the API server starts again",
	clock: fastClock{epoch: time.Now()}, // the outage is long, and so would be the back-off after it
	strike: func(c *cell) {
		refused := c.proxy.Arm(c.watches(), faultproxy.InternalError)
		c.rewatch()
		eventually(c.t, "the client is away", func() bool { return refused.Count() > 0 })
	},
	proof:   faultproxy.InternalError,
	counter: watchEnds, labels: because("gone"),
	more: 20, // in vain, while it is away
}

// waitedAsTold holds the requests that followed a 429 against its Retry-After.
func (c *cell) waitedAsTold() {
	next := func() time.Duration {
		watches := c.proxy.Requests(c.watches())
		for i, r := range watches {
			if r.Status == 429 && i+1 < len(watches) {
				return watches[i+1].Start.Sub(r.Start)
			}
		}
		return -1
	}
	eventually(c.t, "another watch comes", func() bool { return next() >= 0 })
	require.GreaterOrEqual(c.t, next(), retryAfter)
}

// Every fault that a watch can have, at a kind of each sort: however the client
// was disturbed while objects came, changed and went, it counts the fault, asks
// no more than it must, and ends with what the cluster has. The results are
// docs/faults.md.
//
// All cells run at once, each with a client and a proxy of its own: they mostly
// wait.
func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	cluster := kubetest.Start(t)
	require.NoError(t, cluster.CreateCRD(t.Context(), gadgets.Group, gadgets.Version, gadgets.Resource, "Widget", kubetest.Namespaced))
	storage := storageapi.New(t, cluster)
	b := startBackend(t, t.TempDir(), keyed)

	var disturbed, compacted []*cell
	for _, f := range faults {
		for _, column := range columns {
			c := newCell(t, cluster, storage, b, f, column.kind)
			if f == compaction {
				compacted = append(compacted, c)
			} else {
				disturbed = append(disturbed, c)
			}
		}
	}
	each := func(cells []*cell, do func(*cell)) {
		for _, c := range cells {
			do(c)
		}
	}
	each(disturbed, func(c *cell) { c.agree(b) })
	each(compacted, func(c *cell) { c.agree(b) })

	each(disturbed, (*cell).begin)
	results := map[*fault][]string{}
	settle := func(c *cell) {
		t.Run(strings.ReplaceAll(c.fault.name, "/", "-")+"/"+c.kind.Resource, func(t *testing.T) {
			c.struck(t)
			results[c.fault] = append(results[c.fault], c.settle(t))
		})
	}
	each(disturbed, settle)
	each(disturbed, func(c *cell) { c.client.stop() })

	each(compacted, (*cell).begin)
	require.NoError(t, cluster.Compact(t.Context()))
	storage.Compact()
	require.NoError(t, cluster.Restart())
	each(compacted, func(c *cell) { c.proxy.Clear() })
	each(compacted, settle)
	if !t.Failed() {
		comparePage(t, results)
	}
}
