// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"math/bits"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
)

// batchOverhead is a little more than what a batch has around its records.
const batchOverhead = 72

// wireSize is what a record takes in a batch of its own, before compression.
func wireSize(r *synchronizer.Record) int {
	headers, n := 0, 0
	for i := range r.Properties {
		p := &r.Properties[i]
		if p.Value == "" {
			continue
		}
		n++
		headers += sized(len(p.Name)) + sized(len(p.Value))
	}
	body := 3 + sized(len(r.Key)) + sized(len(r.Payload)) + varint(n) + headers
	return batchOverhead + varint(body) + body
}

// sized is n bytes with their length before them.
func sized(n int) int { return varint(n) + n }

// varint is the length of a positive number as Kafka writes it: zigzag, seven
// bits per byte.
func varint(n int) int { return (bits.Len64(uint64(n)<<1|1) + 6) / 7 }

// arena holds the bytes of several records: payloads are not the queue's to keep,
// and one allocation is cheaper than one per property.
type arena struct {
	bytes   []byte
	headers []kgo.RecordHeader
}

func newArena(records []synchronizer.Record) arena {
	size, headers := 0, 0
	for i := range records {
		r := &records[i]
		size += len(r.Key) + len(r.Payload)
		for j := range r.Properties {
			size += len(r.Properties[j].Value)
		}
		headers += len(r.Properties)
	}
	return arena{bytes: make([]byte, 0, size), headers: make([]kgo.RecordHeader, 0, headers)}
}

func (a *arena) text(s string) []byte {
	from := len(a.bytes)
	a.bytes = append(a.bytes, s...)
	return a.bytes[from:len(a.bytes):len(a.bytes)]
}

// fill makes a Kafka record of r.
func (a *arena) fill(out *kgo.Record, topic string, r *synchronizer.Record) {
	out.Topic = topic
	if r.Key != "" { // nil is no key: any partition
		out.Key = a.text(r.Key)
	}
	from := len(a.bytes)
	a.bytes = append(a.bytes, r.Payload...)
	// Never nil: that would be a tombstone on a compacted topic.
	out.Value = a.bytes[from:len(a.bytes):len(a.bytes)]
	first := len(a.headers)
	for i := range r.Properties {
		if p := &r.Properties[i]; p.Value != "" {
			a.headers = append(a.headers, kgo.RecordHeader{Key: p.Name, Value: a.text(p.Value)})
		}
	}
	out.Headers = a.headers[first:len(a.headers):len(a.headers)]
}

// partitionNames keeps the text of Record.Partition, so that it is made once per
// partition.
type partitionNames struct {
	topic string
	names map[int32]string
}

func (n *partitionNames) of(partition int32) string {
	name, ok := n.names[partition]
	if !ok {
		name = n.topic + "-" + strconv.Itoa(int(partition))
		if n.names == nil {
			n.names = map[int32]string{}
		}
		n.names[partition] = name
	}
	return name
}

// fromKafka makes a record of what was read, and takes its bytes over.
func fromKafka(r *kgo.Record, names *partitionNames) synchronizer.Record {
	out := synchronizer.Record{
		Key: string(r.Key), Payload: r.Value,
		Partition: names.of(r.Partition), Position: uint64(r.Offset),
	}
	if len(r.Headers) > 0 {
		out.Properties = make([]synchronizer.Property, len(r.Headers))
		for i := range r.Headers {
			out.Properties[i] = synchronizer.Property{Name: r.Headers[i].Key, Value: string(r.Headers[i].Value)}
		}
	}
	return out
}
