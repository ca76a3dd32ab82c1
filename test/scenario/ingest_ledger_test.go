// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/patch"
	"synchronizer/internal/queue"
)

// ledger is a writer that publishes what clients of some clusters would say, keeps
// what is true of every object, and answers what it is asked, as a client does.
type ledger struct {
	t       testing.TB
	queue   synchronizer.Queue
	encoder queue.Encoder
	random  *rand.Rand

	mu       sync.Mutex
	clusters []*writtenCluster
	said     int // statements
	asked    int // questions that were answered
}

// writtenCluster is one cluster: its connection, and its objects (nil: deleted).
type writtenCluster struct {
	synchronizer.ClusterID
	stamp       synchronizer.Stamp
	connections int
	version     int
	objects     map[string][]byte
}

func newLedger(t testing.TB, q synchronizer.Queue, encoding queue.Encoding, seed uint64, clusters int) *ledger {
	l := &ledger{t: t, queue: q, encoder: queue.Encoder{Encoding: encoding, Producer: queue.Server}, random: rand.New(rand.NewPCG(seed, 77))}
	for n := range clusters {
		l.clusters = append(l.clusters, &writtenCluster{
			ClusterID: synchronizer.ClusterID{Account: fmt.Sprint("account-", n%2), Cluster: fmt.Sprint("cluster-", n/2)}, objects: map[string][]byte{},
		})
	}
	return l
}

// ledgerNames is how many objects a cluster may have.
const ledgerNames = 40

// oddTexts are what databases have trouble with.
var oddTexts = []string{`\u0000`, `\ud800`, `é\u00e9`, `9007199254740993`, `</script>`, strings.Repeat("long ", 300)}

// speak makes the statements of one call to the queue.
func (l *ledger) speak(n int) (records []synchronizer.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		c := l.clusters[l.random.IntN(len(l.clusters))]
		if c.connections == 0 || l.random.IntN(200) == 0 {
			c.connections++
			c.stamp = synchronizer.Stamp{Source: fmt.Sprintf("%s-connection-%d", c.ClusterID, c.connections)}
			records = append(records, l.record(c, synchronizer.Message{Event: synchronizer.EventServerConnected}))
		}
		records = append(records, l.statement(c, fmt.Sprint("object-", l.random.IntN(ledgerNames))))
	}
	return records
}

func (l *ledger) statement(c *writtenCluster, name string) synchronizer.Record {
	c.version++
	before := c.objects[name]
	switch what := l.random.IntN(10); {
	case what == 0 && before != nil:
		c.objects[name] = nil
		return l.record(c, synchronizer.Message{Event: synchronizer.EventDelete, Name: name})
	case what <= 2 && before != nil:
		return l.record(c, synchronizer.Message{Event: synchronizer.EventVerify, Name: name, Checksum: l.sum(before)})
	case what <= 5 && before != nil:
		diff := fmt.Appendf(nil, `{"metadata":{"resourceVersion":"%d"},"spec":{"replicas":%d}}`, c.version, c.version)
		after, err := patch.ApplyV1(before, diff)
		require.NoError(l.t, err)
		c.objects[name] = after
		return l.record(c, synchronizer.Message{Event: synchronizer.EventPatch, Name: name, Body: diff, Checksum: l.sum(after)})
	}
	odd := oddTexts[l.random.IntN(len(oddTexts))]
	doc := fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"namespace":"demo","uid":"uid-%d","resourceVersion":"%d","labels":{"app":"x"}},"spec":{"replicas":%d,"z":1,"a":1.50},"odd":"%s"}`,
		name, c.version, c.version, c.version, odd)
	c.objects[name] = doc
	return l.record(c, synchronizer.Message{Event: synchronizer.EventPut, Name: name, Body: doc, Checksum: l.sum(doc)})
}

func (l *ledger) sum(doc []byte) string {
	sum, err := checksum.ObjectV1(doc)
	require.NoError(l.t, err)
	return sum
}

func (l *ledger) record(c *writtenCluster, m synchronizer.Message) synchronizer.Record {
	if m.Event.AboutObject() {
		c.stamp.Seq++
		m.Kind, m.Namespace = deployments, "demo"
		l.said++
	}
	m.ClusterID, m.Stamp, m.Depth = c.ClusterID, c.stamp, 2
	if m.MsgID == "" {
		m.MsgID = fmt.Sprintf("%s-%d", c.stamp.Source, c.stamp.Seq)
	}
	r, err := l.encoder.Encode(&m, queue.Extra{Link: "v1"})
	require.NoError(l.t, err)
	return r
}

// write publishes until ctx ends, so many records a second at most.
func (l *ledger) write(ctx context.Context, perSecond int) error {
	const each = 50
	tick := time.NewTicker(time.Second * each / time.Duration(perSecond))
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := l.publish(l.speak(each)); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// publish goes on until the broker has confirmed everything, as a server does.
func (l *ledger) publish(records []synchronizer.Record) error {
	var err error
	for range 5 {
		if err = l.queue.Publish(l.t.Context(), synchronizer.Out, records); err == nil {
			return nil
		}
	}
	return err
}

// answer answers what is asked on the topic in until ctx ends.
func (l *ledger) answer(ctx context.Context, tail synchronizer.Tail) error {
	for {
		records, err := tail.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		var answers []synchronizer.Record
		for i := range records {
			m, err := queue.Decode(&records[i])
			if err != nil {
				return err
			}
			if m.Event == synchronizer.EventGet {
				answers = append(answers, l.put(&m)...)
			}
		}
		if len(answers) > 0 {
			if err := l.publish(answers); err != nil {
				return err
			}
		}
	}
}

// put is the answer to a question: the newest state.
func (l *ledger) put(m *synchronizer.Message) []synchronizer.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.clusters {
		if doc := c.objects[m.Name]; c.ClusterID == m.ClusterID && doc != nil {
			l.asked++
			return []synchronizer.Record{l.record(c, synchronizer.Message{
				Event: synchronizer.EventPut, Name: m.Name, Body: doc, Checksum: l.sum(doc), MsgID: m.MsgID,
			})}
		}
	}
	return nil
}

// differences compares the store with the ledger, byte for byte.
func (l *ledger) differences(ctx context.Context, store synchronizer.Reader) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.clusters {
		page, err := store.Objects(ctx, synchronizer.ObjectQuery{Account: c.Account, Clusters: []string{c.Cluster}, Full: true, Limit: 10_000})
		if err != nil {
			return append(list, err.Error())
		}
		stored := map[string][]byte{}
		for i := range page.Rows {
			stored[page.Rows[i].Key.Name] = page.Rows[i].Body
		}
		for name, doc := range c.objects {
			if got, known := stored[name]; (doc != nil) != known || !bytes.Equal(got, doc) {
				list = append(list, fmt.Sprintf("%s %s:\n  stored %q\n  true   %q", c.ClusterID, name, got, doc))
			}
			delete(stored, name)
		}
		for name := range stored {
			list = append(list, fmt.Sprintf("%s %s was never there", c.ClusterID, name))
		}
	}
	slices.Sort(list)
	return list
}

// agree waits until the store has what is true.
func (l *ledger) agree(store synchronizer.Reader, limit time.Duration) {
	l.t.Helper()
	ok := func() bool { return len(l.differences(l.t.Context(), store)) == 0 }
	deadline := time.After(limit)
	for !ok() {
		select {
		case <-deadline:
			list := l.differences(l.t.Context(), store)
			require.Empty(l.t, list[:min(len(list), 5)], "%d differences after %s", len(list), limit)
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
