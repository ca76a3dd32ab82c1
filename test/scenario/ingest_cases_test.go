// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/ingest"
	"synchronizer/internal/patch"
)

// send publishes messages of a cluster, as a server that has read them from its
// connection.
func (r *ingestRig) send(c *writtenCluster, messages ...synchronizer.Message) {
	var records []synchronizer.Record
	r.ledger.mu.Lock()
	for _, m := range messages {
		records = append(records, r.record(c, m))
	}
	r.ledger.mu.Unlock()
	require.NoError(r.t, r.publish(records))
}

// known sets what is true of an object, for answers and comparisons.
func (r *ingestRig) known(c *writtenCluster, name string, doc []byte) {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	c.objects[name] = doc
}

func (r *ingestRig) stored(c *writtenCluster, name string) string {
	row, err := r.store.Object(r.t.Context(), synchronizer.ObjectKey{ClusterID: c.ClusterID, Kind: deployments, Namespace: "demo", Name: name})
	if err != nil || row.Deleted() {
		return ""
	}
	return string(row.Body)
}

func (r *ingestRig) connect(c *writtenCluster) {
	c.stamp = synchronizer.Stamp{Source: fresh("connection")}
	r.send(c, synchronizer.Message{Event: synchronizer.EventServerConnected})
}

// put is a PutObject.
func (r *ingestRig) puts(name string, doc []byte) synchronizer.Message {
	return synchronizer.Message{Event: synchronizer.EventPut, Name: name, Body: doc, Checksum: r.sum(doc)}
}

func state(name, uid string, version int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"demo","uid":%q,"resourceVersion":"%d"},"spec":{"v":%d}}`, name, uid, version, version)
}

// B007: an older update that arrives after a newer one does not win, a late
// deletion of the old object does not remove the new one: with 1 and 8 workers, 200
// objects in parallel.
func TestB007OlderUpdateAfterNewer(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			onStores(t, func(t *testing.T, store ingestStore) {
				r := startIngest(t, store, func(o *ingest.Options) { o.Workers = workers })
				var publishers sync.WaitGroup
				for n, c := range r.clusters {
					r.connect(c)
					for i := n; i < 200; i += len(r.clusters) {
						name := fmt.Sprint("object-", i)
						r.known(c, name, state(name, "new", 3))
					}
					publishers.Go(func() {
						first, then, late := []synchronizer.Record{}, []synchronizer.Record{}, []synchronizer.Record{}
						for i := n; i < 200; i += len(r.clusters) {
							name := fmt.Sprint("object-", i)
							r.ledger.mu.Lock()
							v1 := r.record(c, r.puts(name, state(name, "old", 1)))
							v2 := r.record(c, r.puts(name, state(name, "old", 2)))
							gone := r.record(c, synchronizer.Message{Event: synchronizer.EventDelete, Name: name})
							v3 := r.record(c, r.puts(name, state(name, "new", 3)))
							r.ledger.mu.Unlock()
							first, then, late = append(first, v1, v2), append(then, gone, v3), append(late, v1, gone)
						}
						for _, call := range [][]synchronizer.Record{first, then, late} {
							if err := r.publish(call); err != nil {
								t.Error(err)
							}
						}
					})
				}
				publishers.Wait()
				eventually(t, "the late ones are final", func() bool { return r.dropped(synchronizer.DropStale) == 400 })
				require.Empty(t, r.differences(t.Context(), store))
				require.Zero(t, r.questions())
			})
		})
	}
}

// B017: a NUL in a string is stored without loss, holds up nothing, and its object
// is an object like any other afterwards.
func TestB017NUL(t *testing.T) {
	onStores(t, func(t *testing.T, store ingestStore) {
		r := startIngest(t, store, nil)
		c := r.clusters[0]
		r.connect(c)
		odd := []byte(`{"metadata":{"name":"odd","namespace":"demo","uid":"u","resourceVersion":"1"},"status":{"log":"abc\u0000def"}}`)
		r.known(c, "odd", odd)
		r.send(c, r.puts("odd", odd))
		for n := range 100 {
			name := fmt.Sprint("normal-", n)
			r.known(c, name, state(name, "u", 1))
			r.send(c, r.puts(name, state(name, "u", 1)))
		}
		r.agree(store, patience)
		require.Equal(t, string(odd), r.stored(c, "odd"))

		// Its checksum is that of the object, so nothing asks for it again and again.
		r.send(c, synchronizer.Message{Event: synchronizer.EventVerify, Name: "odd", Checksum: r.sum(odd)})
		diff := []byte(`{"metadata":{"resourceVersion":"2"},"status":{"log":"abcdef"}}`)
		after := []byte(strings.NewReplacer(`\u0000`, "", `"resourceVersion":"1"`, `"resourceVersion":"2"`).Replace(string(odd)))
		r.known(c, "odd", after)
		r.send(c, synchronizer.Message{Event: synchronizer.EventPatch, Name: "odd", Body: diff, Checksum: r.sum(after)})
		r.agree(store, patience)
		require.Zero(t, r.questions())
		require.Zero(t, r.dropped(synchronizer.DropDeadLetter))
	})
}

// B040: the checksum is that of the patched object: ten patches and no whole
// object. When the stored copy is another one, the next patch makes one question
// and one answer, and then it is quiet.
func TestB040ChecksumOfThePatchedObject(t *testing.T) {
	onStores(t, func(t *testing.T, store ingestStore) {
		r := startIngest(t, store, nil)
		c := r.clusters[0]
		r.connect(c)
		now := state("web", "u", 1)
		r.known(c, "web", now)
		r.send(c, r.puts("web", now))
		change := func(version int) {
			diff := fmt.Appendf(nil, `{"metadata":{"resourceVersion":"%d"},"spec":{"v":%d}}`, version, version)
			after, err := patch.ApplyV1(now, diff)
			require.NoError(t, err)
			sum, err := checksum.ObjectV1(after)
			require.NoError(t, err)
			now = after
			r.known(c, "web", now)
			r.send(c, synchronizer.Message{Event: synchronizer.EventPatch, Name: "web", Body: diff, Checksum: sum})
		}
		for version := range 10 {
			change(version + 2)
			r.agree(store, patience)
		}
		r.send(c, synchronizer.Message{Event: synchronizer.EventVerify, Name: "web", Checksum: r.sum(now)})
		r.marker(c, "after-verify")
		require.Zero(t, r.questions())

		key := synchronizer.ObjectKey{ClusterID: c.ClusterID, Kind: deployments, Namespace: "demo", Name: "web"}
		require.NoError(t, store.Update(t.Context(), func(tx synchronizer.Tx) error {
			rows, err := tx.Rows(t.Context(), []synchronizer.ObjectKey{key}, []bool{true})
			if err != nil {
				return err
			}
			corrupt := *rows[0]
			corrupt.Body = []byte(strings.Replace(string(corrupt.Body), `"spec"`, `"sepc"`, 1))
			return tx.Write(t.Context(), []synchronizer.Row{corrupt})
		}))
		change(12)
		r.agree(store, patience)
		require.Equal(t, 1, r.questions())
		require.Equal(t, 1, r.answers())
		for version := range 5 {
			change(version + 13)
			r.agree(store, patience)
		}
		r.send(c, synchronizer.Message{Event: synchronizer.EventVerify, Name: "web", Checksum: r.sum(now)})
		r.marker(c, "in-the-end")
		require.Equal(t, 1, r.questions())
		require.Equal(t, 1, r.answers())
	})
}

// marker waits until everything that was sent for the cluster before it is final.
func (r *ingestRig) marker(c *writtenCluster, name string) {
	r.t.Helper()
	r.known(c, name, state(name, "u", 1))
	r.send(c, r.puts(name, state(name, "u", 1)))
	r.agree(r.store, patience)
}

func (r *ingestRig) answers() int {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	return r.asked
}

// What a reader gets is byte for byte what the client sent, whole or by patch,
// whatever a database or a library would like to make of it.
func TestExactBytes(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 500) + `[]` + strings.Repeat(`}`, 500)
	onStores(t, func(t *testing.T, store ingestStore) {
		r := startIngest(t, store, nil)
		c := r.clusters[0]
		r.connect(c)
		for name, text := range map[string]string{
			"numbers":     `[1.0,1.50,1e400,-0,0.1e-9,9007199254740993,18446744073709551615,123456789012345678901234567890]`,
			"escapes":     `"\u0000\ud800\udfff\u00e9é\/\b\u2028<>&"`,
			"keys":        `{"z":1,"a":2,"z":3,"":4}`,
			"white-space": "[ 1 ,\t2 , {} ]",
			"deep":        deep,
			"characters":  "\"\U0001F600\uFFFD\u0301\"",
			"large":       `"` + strings.Repeat("0123456789abcdef", 1<<16) + `"`,
		} {
			doc := fmt.Appendf(nil, `{"kind":"X","metadata":{"name":%q,"namespace":"demo","uid":"u","resourceVersion":"1","labels":{"a":"\ud800\u0000"}},"value":%s}`, name, text)
			r.known(c, name, doc)
			sum, _ := checksum.ObjectV1(doc) // of too large numbers there is none
			r.send(c, synchronizer.Message{Event: synchronizer.EventPut, Name: name, Body: doc, Checksum: sum})
		}
		r.agree(store, patience)
		require.Zero(t, r.dropped(synchronizer.DropDeadLetter))
		require.Zero(t, r.questions())

		// A patch touches nothing but what it names.
		before := []byte(`{"metadata":{"name":"patched","namespace":"demo","uid":"u","resourceVersion":"1"},"z":1.50,"a":"\u00e9\u0000","n":9007199254740993,"spec":{"v":1}}`)
		after := []byte(`{"metadata":{"name":"patched","namespace":"demo","uid":"u","resourceVersion":"2"},"z":1.50,"a":"\u00e9\u0000","n":9007199254740993,"spec":{"v":2}}`)
		r.known(c, "patched", after)
		r.send(c, r.puts("patched", before), synchronizer.Message{
			Event: synchronizer.EventPatch, Name: "patched", Body: []byte(`{"metadata":{"resourceVersion":"2"},"spec":{"v":2}}`), Checksum: r.sum(after),
		})
		r.agree(store, patience)
		require.Zero(t, r.questions())
	})
}
