// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"synchronizer"
	"synchronizer/internal/kube/recorded"
	"synchronizer/internal/queue"
)

const (
	// recordBytes is the payload of a record.
	recordBytes = 2048
	// batchRecords is how many are published in one call.
	batchRecords = 500
	// recordSet is how many are made; a run sends them again and again.
	recordSet = 20 * batchRecords
	// recordClusters is the number of clusters that they are about, and so of keys.
	recordClusters = 20
)

// putMessages are PutObjects of different objects with bodies of so many bytes:
// the text of generated Deployments, cut into pieces, which nothing on the way
// looks into.
func putMessages(seed uint64, n, bodyBytes int) []synchronizer.Message {
	var text []byte
	for item := range recorded.Generate(recorded.Deployments, seed, n*bodyBytes/2000+100) {
		text = append(text, item.Body...)
	}
	source := uuid.NewString()
	messages := make([]synchronizer.Message, n)
	for i := range messages {
		messages[i] = synchronizer.Message{
			Event: synchronizer.EventPut, Depth: 1, MsgID: uuid.NewString(), Kind: recorded.Deployments,
			Namespace: fmt.Sprintf("team-%02d", i%50), Name: fmt.Sprintf("web-%06d", i),
			Checksum:  fmt.Sprintf("%064x", i),
			Body:      text[i*bodyBytes : (i+1)*bodyBytes : (i+1)*bodyBytes],
			ClusterID: recordCluster(i),
			Stamp:     synchronizer.Stamp{Source: source, Seq: uint64(i + 1)},
		}
	}
	return messages
}

func recordCluster(i int) synchronizer.ClusterID {
	return synchronizer.ClusterID{Account: "11111111-2222-3333-4444-555555555555", Cluster: fmt.Sprintf("bench-%02d", i%recordClusters)}
}

// putRecords are recordSet records as a server publishes them, with payloads of
// recordBytes, or up to three fewer where they are base64.
func putRecords(seed uint64, encoding queue.Encoding) ([]synchronizer.Record, error) {
	encoder := queue.Encoder{Encoding: encoding, Producer: queue.Server}
	bodyBytes := recordBytes
	if encoding == queue.Field {
		empty := putMessages(seed, 1, 0)
		r, err := encoder.Encode(&empty[0], queue.Extra{Link: "v1"})
		if err != nil {
			return nil, fmt.Errorf("encoding a record: %w", err)
		}
		bodyBytes = (recordBytes - len(r.Payload)) / 4 * 3
	}
	records := make([]synchronizer.Record, 0, recordSet)
	for _, m := range putMessages(seed, recordSet, bodyBytes) {
		r, err := encoder.Encode(&m, queue.Extra{Link: "v1"})
		if err != nil {
			return nil, fmt.Errorf("encoding a record: %w", err)
		}
		records = append(records, r)
	}
	return slices.Clip(records), nil
}

func encodingName(e queue.Encoding) string {
	if e == queue.Field {
		return "field"
	}
	return "compact"
}
