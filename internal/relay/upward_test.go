// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/queuetest/memory"
)

// readLines reads a recording, one JSON document a line.
func readLines[T any](t *testing.T, name string) (lines []T) {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var line T
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &line))
		lines = append(lines, line)
	}
	require.NoError(t, scanner.Err())
	return lines
}

type recordedFrame struct {
	Scenario, Dir, Type, Note string
	Frame                     json.RawMessage
}

type recordedRecord struct {
	Scenario, Direction, Key string
	Properties               map[string]string
	Payload                  json.RawMessage
}

// TestUpwardLikeTheField sends every frame that a client in the field sent, and
// compares the records with those that a server in the field made of them.
func TestUpwardLikeTheField(t *testing.T) {
	type id struct{ scenario, msgID, event, kind, name string }
	want := map[id]recordedRecord{}
	var account, cluster string
	for _, r := range readLines[recordedRecord](t, "../queue/testdata/records-pulsar.jsonl") {
		var p struct{ MsgID, Kind, Name string }
		if r.Direction != "server->broker" || json.Unmarshal(r.Payload, &p) != nil || p.Name == "" {
			continue
		}
		want[id{r.Scenario, p.MsgID, r.Properties["event"], p.Kind, p.Name}] = r
		if account == "" {
			account, cluster = r.Properties["account"], r.Properties["cluster"]
		}
	}
	f := newFixture(t, Options{Encoding: queue.Field}, nil)
	c := f.connect(account, cluster)
	compared := 0
	for _, line := range readLines[recordedFrame](t, "../wire/testdata/frames-v1.jsonl") {
		if line.Dir != "client->server" || line.Type != "MessageBinary" || line.Note != "" || strings.Contains(string(line.Frame), `"Event":7`) {
			continue
		}
		c.send(string(line.Frame))
		if strings.Contains(string(line.Frame), `"Depth":9,`) {
			f.drops.Require(t, "too_deep: PutObject /v1/configmaps demo/settings")
			f.drops.Reset()
			continue
		}
		got := f.object()
		var p struct{ MsgID, Kind, Name string }
		require.NoError(t, json.Unmarshal(got.Payload, &p))
		expected, ok := want[id{line.Scenario, p.MsgID, got.Property("event"), p.Kind, p.Name}]
		if !ok || expected.Properties["cluster"] != cluster {
			continue // repeats were cut from the recordings
		}
		compared++
		require.JSONEq(t, string(expected.Payload), string(got.Payload), "%s", line.Scenario)
		properties := map[string]string{}
		for _, property := range got.Properties {
			if !strings.HasPrefix(property.Name, "x-") && property.Name != queue.PropertyTimestamp {
				properties[property.Name] = property.Value
			}
		}
		delete(expected.Properties, queue.PropertyTimestamp)
		require.Equal(t, expected.Properties, properties, "%s", line.Scenario)
	}
	require.Greater(t, compared, 90, "of about a hundred frames")
	require.Empty(t, f.drops.All())
}

// TestUpwardStamps: contiguous from 1 per connection, batches in the field's
// order with the MsgId and Depth of the batch, dropped objects leave no gap.
func TestUpwardStamps(t *testing.T) {
	f := newFixture(t, Options{MaxObjectSize: 100}, nil)
	c := f.connect("a", "c")
	sources := map[string]bool{}
	seq := 0
	next := func(event, name string, depth int) {
		t.Helper()
		r := f.object()
		seq++
		require.Equal(t, event+" "+name, r.Property("event")+" "+r.Property("name"))
		require.Equal(t, strconv.Itoa(seq), r.Property(queue.PropertySeq))
		require.Equal(t, strconv.Itoa(depth), r.Property(queue.PropertyDepth))
		require.Equal(t, "v1", r.Property(queue.PropertyLink))
		require.Equal(t, "a/c", r.Key)
		sources[r.Property(queue.PropertySource)] = true
	}
	c.send(named("one"))
	next("VerifyObject", "one", 2)
	c.send(strings.Replace(named("deep"), `"Depth":1`, `"Depth":8`, 1))
	next("VerifyObject", "deep", 9)

	item := func(event int, name, more string) string {
		return fmt.Sprintf(`{"Depth":0,"Event":%d,"Kind":{"Group":"","Version":"v1","Resource":"configmaps","AdditionalProperties":null},"MsgId":"","Name":%q,"Namespace":"demo","ResourceVersion":7%s,"AdditionalProperties":null}`, event, name, more)
	}
	big := `,"Checksum":"","Object":"` + strings.Repeat("x", 101) + `"`
	c.send(`{"Depth":2,"Event":8,"Kind":{"Group":"","Version":"v1","Resource":"configmaps","AdditionalProperties":null},"MsgId":"batch","BatchType":"reconciliation","Items":{` +
		`"PutObject":[` + item(6, "put", `,"Checksum":"","Object":"{}"`) + `,` + item(6, "too-big", big) + `],"NewChecksum":[` + item(0, "checksum", `,"Checksum":""`) +
		`],"ObjectDeleted":[` + item(2, "deleted", "") + `],"GetObject":[` + item(4, "get", `,"BaseObject":""`) +
		`],"PatchObject":[` + item(5, "patch", `,"Checksum":"","Patch":"{}"`) + `]},"AdditionalProperties":null}`)
	next("GetObject", "get", 3)
	next("VerifyObject", "checksum", 3)
	next("DeleteObject", "deleted", 3)
	next("PatchObject", "patch", 3)
	next("PutObject", "put", 3)
	f.drops.Require(t, "too_large: PutObject a/c /v1/configmaps demo/too-big: 101 bytes")
	c.send(named("after"))
	next("VerifyObject", "after", 2)
	require.Len(t, sources, 1)

	again := f.connect("a", "c")
	seq = 0
	again.send(named("again"))
	next("VerifyObject", "again", 2)
	require.Len(t, sources, 2, "another connection is another source")
}

// TestUpwardHostileFrames: each is counted and named, and the connection goes on.
func TestUpwardHostileFrames(t *testing.T) {
	f := newFixture(t, Options{Link: linkOptions(1 << 20)}, nil)
	c := f.connect("a", "c")
	kind := `"Kind":{"Group":"","Version":"v1","Resource":"configmaps","AdditionalProperties":null}`
	for _, test := range []struct{ name, frame, drop string }{
		{"not JSON", `{"Depth":1,`, "malformed"},
		{"empty", ``, "malformed"},
		{"an array", `[1,2]`, "malformed"},
		{"binary rubbish", "\x00\xff\xfe", "malformed"},
		{"wrong type", `{"Depth":"1","Event":0,` + kind + `,"MsgId":"m","Name":"n"}`, "malformed"},
		{"Event null", `{"Depth":1,"Event":null,` + kind + `}`, "malformed"},
		{"Event missing", `{"Depth":1,` + kind + `}`, "malformed"},
		{"Kind null", `{"Depth":1,"Event":0,"Kind":null,"MsgId":"m","Name":"n","Namespace":"d"}`, "malformed"},
		{"kind with a slash", strings.Replace(named("x"), `"configmaps"`, `"a/b"`, 1), "malformed"},
		{"batch with Kind null", `{"Depth":1,"Event":8,"MsgId":"x","Kind":null,"BatchType":"","Items":{}}`, ""},
		{"batch with Items null", `{"Depth":1,"Event":8,"MsgId":"x",` + kind + `,"BatchType":"","Items":null}`, ""},
		{"item that is no object", `{"Depth":1,"Event":8,"MsgId":"x",` + kind + `,"BatchType":"","Items":{"PutObject":[1]}}`, "malformed"},
		{"unknown event", strings.Replace(named("x"), `"Event":0`, `"Event":99`, 1), "unknown_event"},
		{"too deep", strings.Replace(named("x"), `"Depth":1`, `"Depth":9`, 1), "too_deep"},
		{"depth below 0", strings.Replace(named("x"), `"Depth":1`, `"Depth":-1`, 1), "malformed"},
		{"nested 100,000 times", strings.Repeat(`{"a":`, 100_000), "malformed"},
		{"too large", `{"Depth":1,"Event":6,` + kind + `,"Name":"huge","Namespace":"demo","Object":"` + strings.Repeat("x", 8<<20) + `"}`, "too_large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.drops.Reset()
			c.send(test.frame)
			c.send(named("after"))
			for {
				r := f.object() // whatever a lenient reading made of it, the connection goes on
				if r.Property("name") == "after" {
					break
				}
				require.Empty(t, test.drop, "a record was made of it: %v", r.Properties)
			}
			if test.drop != "" {
				f.drops.Require(t, test.drop+": ")
			}
		})
	}
	t.Run("text frame", func(t *testing.T) {
		f.drops.Reset()
		require.NoError(t, c.ws.Write(t.Context(), websocket.MessageText, []byte(named("text"))))
		c.send(named("after"))
		r := f.object()
		require.Equal(t, "after", r.Property("name"))
		f.drops.Require(t, "text_frame: ")
	})
}

// TestUpwardFromStockClient runs a whole conversation with a client in the field.
func TestUpwardFromStockClient(t *testing.T) {
	f := newFixture(t, Options{}, nil)
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"demo","resourceVersion":"5"},"data":{"a":"<&>\u0000"}}`
	stock.Connect(t, f.url, stock.ClientOptions{
		Account: "a", Cluster: "c", Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy},
		Objects: []stock.Object{{Kind: configMaps, Namespace: "demo", Name: "one", JSON: body}},
	})
	r := f.object()
	require.Equal(t, "VerifyObject", r.Property("event"))
	require.Equal(t, stock.Checksum(body), r.Property(queue.PropertyChecksum))
	f.down(ask("a", "c", "one"))
	r = f.object()
	require.Equal(t, "PutObject", r.Property("event"))
	require.Equal(t, body, string(r.Payload), "the exact bytes of the object")
	require.Equal(t, "get-one", r.Property(queue.PropertyMsgID))
	require.Equal(t, "5", r.Property(queue.PropertyDepth), "2 + 1 down, + 1 in the answer, + 1 up")
}

// panicking is a link whose messages make the server panic.
type panicking struct{ synchronizer.Link }

func (panicking) Receive(context.Context) (synchronizer.Message, error) { panic("of a frame") }

// TestPanicEndsOneConnection: what one client makes the server stumble over costs it
// its connection, and others nothing.
func TestPanicEndsOneConnection(t *testing.T) {
	first := true
	f := newFixture(t, Options{Link: link.Options{Wrap: func(l synchronizer.Link) synchronizer.Link {
		if first {
			first = false
			return panicking{l}
		}
		return l
	}}}, nil)
	unlucky := f.connect("a", "one")
	unlucky.ended()
	require.Contains(t, f.log.String(), "panic=\"of a frame\"")
	other := f.connect("a", "two")
	other.send(`{"Depth":1,"Event":0,"Kind":{"Group":"","Version":"v1","Resource":"pods","AdditionalProperties":null},"MsgId":"m","Name":"n","Namespace":"d","Checksum":"c","ResourceVersion":0,"AdditionalProperties":null}`)
	r := f.object()
	require.Equal(t, "n", r.Property(queue.PropertyName))
}

// TestUpwardTooLargeForTheQueue: each record that the queue refuses for its size is
// dropped once, and named, and those beside it in the batch count as what they are: in
// the queue.
func TestUpwardTooLargeForTheQueue(t *testing.T) {
	broker := &memory.Broker{MaxRecord: 1000}
	f := newFixture(t, Options{Queue: broker.Open()}, nil)
	c := &connection{server: f.Server, ctx: t.Context(), hello: synchronizer.Hello{ClusterID: synchronizer.ClusterID{Account: "a", Cluster: "c"}}}
	var batch []synchronizer.Record
	for i, size := range []int{1, 2000, 1, 3000, 2500, 1} {
		m := synchronizer.Message{
			Event: synchronizer.EventPut, Kind: synchronizer.Kind{Version: "v1", Resource: "pods"}, Namespace: "demo", Name: fmt.Sprint("pod-", i), ClusterID: c.id(), Body: make([]byte, size),
		}
		r, err := f.encoder.Encode(&m, queue.Extra{})
		require.NoError(t, err)
		batch = append(batch, r)
	}
	require.NoError(t, c.publish(batch))
	require.Len(t, broker.Records(synchronizer.Out), 3)
	f.drops.Require(t, "too_large: PutObject a/c pods demo/pod-1", "too_large: PutObject a/c pods demo/pod-3", "too_large: PutObject a/c pods demo/pod-4")
	produced := func(status string) float64 {
		return testutil.ToFloat64(f.metrics.produced.WithLabelValues("embedded", status, "PutObject", "pods", "a", "c"))
	}
	require.Equal(t, 3.0, produced("success"))
	require.Equal(t, 3.0, produced("error"))
}
