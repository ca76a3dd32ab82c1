// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"synchronizer"
)

// TestCommandsLikeTheField hands down everything about one object that was recorded on
// the broker, and compares the frames with those of a server in the field. A record whose
// payload names somebody else is among it: the properties decide.
func TestCommandsLikeTheField(t *testing.T) {
	type step struct{ scenario, msgID string }
	want := map[step]json.RawMessage{}
	for _, f := range readLines[recordedFrame](t, "../wire/testdata/frames-v1.jsonl") {
		var frame struct {
			Depth            int
			MsgID, BatchType string
		}
		if f.Dir == "server->client" && json.Unmarshal(f.Frame, &frame) == nil && frame.BatchType == "" && frame.Depth <= synchronizer.MaxDepth { // clients drop others
			want[step{f.Scenario, frame.MsgID}] = f.Frame
		}
	}
	fake := newFakeQueue()
	fx := newFixture(t, Options{Queue: fake}, nil)
	compared, named := 0, 0
	for _, recorded := range readLines[recordedRecord](t, "../queue/testdata/records-pulsar.jsonl") {
		var payload struct{ MsgID, Account, Cluster string }
		if recorded.Direction != "test->broker" || json.Unmarshal(recorded.Payload, &payload) != nil {
			continue
		}
		raw, ok := want[step{recorded.Scenario, payload.MsgID}]
		if !ok {
			continue // nobody was connected, or no server of the field survives it
		}
		r := synchronizer.Record{Key: recorded.Key, Payload: recorded.Payload}
		for name, value := range recorded.Properties {
			r.Properties = append(r.Properties, synchronizer.Property{Name: name, Value: value})
		}
		id := clusterOf(&r)
		c := fx.connect(id.Account, id.Cluster)
		require.Eventually(t, func() bool { return fx.registry.find(id) != nil }, limit, time.Millisecond)
		fake.tail <- []synchronizer.Record{r}
		frame, err := c.next()
		require.NoError(t, err, "%s: %v", recorded.Scenario, fx.drops.All())
		var expected map[string]any
		require.NoError(t, json.Unmarshal(raw, &expected))
		require.Equal(t, expected, frame, recorded.Scenario)
		compared++
		if payload.Account != id.Account {
			named++
		}
		require.NoError(t, c.ws.Close(websocket.StatusNormalClosure, ""))
		require.Eventually(t, func() bool { return fx.registry.find(id) == nil }, limit, time.Millisecond)
	}
	require.GreaterOrEqual(t, compared, 30)
	require.Equal(t, 1, named)
}
