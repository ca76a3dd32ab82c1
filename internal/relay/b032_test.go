// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue"
)

// versionsB032 are those of clients, and whether they are asked to reconcile.
var versionsB032 = []struct {
	version string
	asked   bool
}{{"v0.0.9", false}, {"v0.0.56", false}, {"v0.0.57", true}, {"v0.0.100", true}, {"v0.1.0", true}, {"v1.0.0", true}}

// TestB032VersionsAreNotTexts: no request for the first two, requests for all others,
// in each way in which they are asked for.
func TestB032VersionsAreNotTexts(t *testing.T) {
	for name, o := range map[string]Options{
		"after connect":   {ReconcileAfter: time.Minute},
		"periodic":        {Periodic: Periodic{Every: time.Minute, MinAge: time.Second}},
		"periodic, batch": {Periodic: Periodic{Every: time.Minute, MinAge: time.Second, Batch: true}},
		"cron":            {Periodic: Periodic{Cron: cronOf(t, "* * * * *"), MinAge: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClockWith(t, o)
				c.run(t)
				want, got := map[string]bool{}, map[string]bool{}
				for _, client := range versionsB032 {
					c.acceptFrom(t, client.version, client.version)
					if client.asked {
						want[client.version] = true
					}
				}
				pass(2*time.Minute - 1)
				records := append(c.requests(), c.of(synchronizer.EventReconciliationBatch)...)
				for i := range records {
					m, err := queue.Decode(&records[i])
					require.NoError(t, err)
					if m.Event == synchronizer.EventReconciliation {
						m.Requests = []synchronizer.Message{m}
					}
					for _, request := range m.Requests {
						require.True(t, request.ServerInitiated)
						require.False(t, got[request.Cluster], "twice: %s", request.Cluster)
						got[request.Cluster] = true
					}
				}
				require.Equal(t, want, got)
			})
		})
	}
}

// TestB032OldClientsWork: they get ordinary messages and are heard; a list of the
// backend reaches only those that understand it.
func TestB032OldClientsWork(t *testing.T) {
	fake := newFakeQueue()
	f := newFixture(t, Options{Queue: fake}, nil)
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"demo","resourceVersion":"5"}}`
	var refused []string
	for _, client := range versionsB032 {
		c := stock.Connect(t, f.url, stock.ClientOptions{
			Account: "a", Cluster: client.version, Version: client.version, Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy},
			Objects: []stock.Object{{Kind: configMaps, Namespace: "demo", Name: "one", JSON: body}},
		})
		said := func(event string) func() bool {
			return func() bool {
				for _, r := range fake.published() {
					if r.Property(queue.PropertyCluster) == client.version && r.Property(queue.PropertyEvent) == event {
						return true
					}
				}
				return false
			}
		}
		require.Eventually(t, said("VerifyObject"), limit, time.Millisecond, client.version)
		e := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
		m := ask("a", client.version, "one")
		question, err := e.Encode(&m, queue.Extra{})
		require.NoError(t, err)
		fake.tail <- []synchronizer.Record{listOf(t, client.version, 1, configMaps), question}
		c.Wait(func(frame *stock.Frame) bool { return frame.MsgId == "get-one" })
		require.Eventually(t, said("PutObject"), limit, time.Millisecond, client.version)
		lists := 0
		for _, frame := range c.Received() {
			if frame.Items != nil {
				lists++
			}
		}
		if client.asked {
			require.Equal(t, 1, lists, client.version)
		} else {
			require.Zero(t, lists, client.version)
			refused = append(refused, "unsupported: ReconciliationRequest a/"+client.version)
		}
	}
	f.drops.Require(t, refused...)
}
