// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"bytes"

	client "github.com/apache/pulsar-client-go/pulsar"

	"synchronizer"
	"synchronizer/internal/queue"
)

// propertyEmpty marks a message whose payload stands for none: the library cannot
// read an empty one outside of a batch.
const propertyEmpty = "x-empty-payload"

// message is the record as Pulsar carries it. It shares nothing with the record:
// the library may hold it longer than a call of Publish lasts.
func message(r *synchronizer.Record) *client.ProducerMessage {
	m := &client.ProducerMessage{
		Payload:     bytes.Clone(r.Payload),
		OrderingKey: r.Key,
		Properties:  make(map[string]string, len(r.Properties)),
	}
	if queue.FromServer(r) {
		m.Key = queue.ServerProducerKey
		if r.Key == queue.ServerProducerKey {
			m.OrderingKey = ""
		}
	}
	for i := range r.Properties {
		m.Properties[r.Properties[i].Name] = r.Properties[i].Value
	}
	if len(r.Payload) == 0 {
		m.Payload, m.Properties[propertyEmpty] = []byte{' '}, "1"
	}
	return m
}

// beside is the size of what travels beside the payload, in bytes.
func beside(r *synchronizer.Record) int {
	n := 256 + 2*len(r.Key)
	for i := range r.Properties {
		n += len(r.Properties[i].Name) + len(r.Properties[i].Value) + 16
	}
	return n
}

// record is a message as a record, and whether a server has produced it.
func record(m client.Message) (r synchronizer.Record, fromServer bool) {
	properties, id := m.Properties(), m.ID()
	r = synchronizer.Record{
		Key:        m.OrderingKey(),
		Payload:    m.Payload(),
		Properties: make([]synchronizer.Property, 0, len(properties)),
		Partition:  m.Topic(),
		Position:   position(id),
	}
	for name, value := range properties {
		if name == propertyEmpty {
			r.Payload = nil
			continue
		}
		r.Properties = append(r.Properties, synchronizer.Property{Name: name, Value: value})
	}
	fromServer = m.Key() == queue.ServerProducerKey || queue.FromServer(&r)
	if r.Key == "" {
		r.Key = keyOf(properties, m.Key())
	}
	return r, fromServer
}

// keyOf is the key of a record that has no ordering key.
func keyOf(properties map[string]string, key string) string {
	account, cluster := properties[queue.PropertyAccount], properties[queue.PropertyCluster]
	if account != "" && cluster != "" {
		return synchronizer.ClusterID{Account: account, Cluster: cluster}.String()
	}
	if key == queue.ServerProducerKey { // about no cluster
		return ""
	}
	return key
}

// Bits of a position below the ledger's number.
const (
	batchBits = 12
	entryBits = 24
)

// position puts an id into one number that grows within a partition. Ledgers with
// more than 16 million entries, and batches of more than 4,094 messages, would end
// in equal numbers, which is harmless.
func position(id client.MessageID) uint64 {
	ledger, entry, batch := uint64(max(id.LedgerID(), 0)), uint64(max(id.EntryID(), 0)), uint64(max(id.BatchIdx()+1, 0))
	return ledger<<(entryBits+batchBits) | min(entry, 1<<entryBits-1)<<batchBits | min(batch, 1<<batchBits-1)
}

// after tells whether an id stands behind another one of the same partition.
func after(id, before client.MessageID) bool {
	if id.LedgerID() != before.LedgerID() {
		return id.LedgerID() > before.LedgerID()
	}
	if id.EntryID() != before.EntryID() {
		return id.EntryID() > before.EntryID()
	}
	return id.BatchIdx() > before.BatchIdx()
}
