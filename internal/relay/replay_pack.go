// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"encoding/binary"

	"synchronizer"
)

// packedSize is the number of bytes of the packed record: payload, names and
// values of the properties and the place on the broker, each with its length.
func packedSize(r *synchronizer.Record) int64 {
	n := lengthSize(len(r.Properties)) + textSize(r.Partition) + lengthSize(int(r.Position)) + len(r.Payload)
	for i := range r.Properties {
		n += textSize(r.Properties[i].Name) + textSize(r.Properties[i].Value)
	}
	return int64(n)
}

func textSize(s string) int { return lengthSize(len(s)) + len(s) }

func lengthSize(n int) int {
	size := 1
	for v := uint64(n); v >= 0x80; v >>= 7 {
		size++
	}
	return size
}

// pack copies a record into one piece of memory of exactly this size. Its key is
// left out: it says nothing that the properties do not say.
func pack(r *synchronizer.Record, size int64) []byte {
	b := make([]byte, 0, size)
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	b = binary.AppendUvarint(b, uint64(len(r.Properties)))
	for i := range r.Properties {
		text(r.Properties[i].Name)
		text(r.Properties[i].Value)
	}
	text(r.Partition)
	b = binary.AppendUvarint(b, r.Position)
	return append(b, r.Payload...)
}

// record unpacks; the payload is that of k.
func (k *kept) record() synchronizer.Record {
	b := k.data
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		b = b[size:]
		return n
	}
	text := func() string {
		n := number()
		s := string(b[:n])
		b = b[n:]
		return s
	}
	r := synchronizer.Record{Properties: make([]synchronizer.Property, number())}
	for i := range r.Properties {
		r.Properties[i] = synchronizer.Property{Name: text(), Value: text()}
	}
	r.Partition = text()
	r.Position = number()
	r.Payload = b
	return r
}
