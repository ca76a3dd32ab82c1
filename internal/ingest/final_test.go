// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// A name that no database can index is no reason to ask one twenty times, while others
// wait.
func TestVeryLongNamesAreDeadLettersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		long := strings.Repeat("ü", 600)
		r.deliver(t, connected(t, "s1"))
		r.deliver(t, put(t, "s1", 1, long, body(long, "u", 1)), verify(t, "s1", 2, long, "aa"), remove(t, "s1", 3, long),
			about(verify(t, "s1", 4, "web", "aa"), synchronizer.Kind{Group: long, Version: "v1", Resource: "pods"}),
			connected(t, long), ofCluster(connected(t, "s2"), synchronizer.ClusterID{Account: cluster.Account, Cluster: long}), put(t, "s1", 5, "web", body("web", "u", 1)))
		require.Len(t, r.dead, 6)
		require.NotNil(t, r.row(t, "web"))
		require.Empty(t, r.questions(t))
		for _, named := range r.drops.named {
			require.Less(t, len(named), 700)
		}
	})
}

// ofCluster makes a record without identity in its payload one of another cluster.
func ofCluster(rec synchronizer.Record, id synchronizer.ClusterID) synchronizer.Record {
	rec.Key, rec.Payload = id.String(), []byte("{}")
	for i := range rec.Properties {
		switch p := &rec.Properties[i]; p.Name {
		case "account":
			p.Value = id.Account
		case "cluster":
			p.Value = id.Cluster
		}
	}
	return rec
}

// narrow is a queue that carries no record of 600 bytes or more.
type narrow struct{ *script }

func (n narrow) Publish(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record) error {
	var fit []synchronizer.Record
	for i := range records {
		if records[i].Size() < 600 {
			fit = append(fit, records[i])
		}
	}
	if err := n.script.Publish(ctx, to, fit); err != nil || len(fit) == len(records) {
		return err
	}
	return fmt.Errorf("publishing: %w", synchronizer.ErrTooLarge)
}

// A question that the queue cannot carry is left out and counted; nothing waits for it.
func TestQuestionThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigAt(t, t.TempDir()+"/test.db", func(o *Options) { o.Queue = narrow{o.Queue.(*script)} })
		r.deliver(t, connected(t, "s1"), verify(t, "s1", 1, strings.Repeat("a", 600), "aa"), verify(t, "s1", 2, "web", "aa"))
		require.Len(t, r.questions(t), 1)
		require.Equal(t, 1, r.drops.of(synchronizer.DropTooLarge))
	})
}

// Neither does it end the ingester that no record can carry the name of what it is
// about. (Servers refuse such names; others write to queues as well.)
func TestQuestionThatCannotBeEncoded(t *testing.T) {
	r := newRig(t, nil)
	odd := about(verify(t, "s1", 1, "odd", "aa"), alerts)
	for i := range odd.Properties {
		if odd.Properties[i].Name == "name" {
			odd.Properties[i].Value = "odd\xff"
		}
	}
	r.deliver(t, connected(t, "s1"), odd, verify(t, "s1", 2, "web", "aa"))
	require.Len(t, r.questions(t), 1)
	require.Equal(t, 1, r.drops.of(synchronizer.DropMalformed))
}

// One client whose names no database has room for does not keep a server from
// reporting the others.
func TestReportOfAClientWithAVeryLongName(t *testing.T) {
	r := newRig(t, nil)
	long := synchronizer.ClusterID{Account: cluster.Account, Cluster: strings.Repeat("c", 3000)}
	r.deliver(t, connected(t, "s1"), say(t, "server", 0, synchronizer.Message{
		Event: synchronizer.EventConnectedClients,
		Clients: &synchronizer.ConnectedClients{Clients: []synchronizer.ConnectedClient{
			{Hello: synchronizer.Hello{ClusterID: long}, ConnectionID: "long"}, {Hello: synchronizer.Hello{ClusterID: cluster}, ConnectionID: "s1"},
		}},
	}))
	clusters, err := r.store.Clusters(t.Context(), synchronizer.ClusterID{})
	require.NoError(t, err)
	require.Len(t, clusters, 1)
	require.Equal(t, "s1", clusters[0].Client.ConnectionID)
}
