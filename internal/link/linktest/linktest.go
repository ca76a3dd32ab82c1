// SPDX-License-Identifier: Apache-2.0

// Package linktest is the contract of synchronizer.Link as a test suite, which
// every implementation passes. It works from both ends of a connection, and
// asks the implementation for a way to put raw frames on the wire.
package linktest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// Setup is what a test needs of a connection. Zero means the default.
type Setup struct {
	MaxMessageBytes int
	WriteTimeout    time.Duration
	PingInterval    time.Duration
	// ClientDrop and ServerDrop get the drops of either end.
	ClientDrop, ServerDrop synchronizer.DropFunc
}

// Pair is a connection. Whoever makes it ends it when the test ends.
type Pair struct {
	Client, Server synchronizer.Link
	// ToServer and ToClient put one frame of link v1 on the wire as it is.
	ToServer, ToClient func(frame []byte, binary bool) error
	// Cut ends the network connection without any farewell.
	Cut func()
}

// Factory makes a connection. The client's first frame (a Ping) is under way.
type Factory func(t *testing.T, setup Setup) Pair

// Limit is how long a test waits for something that should happen at once.
const Limit = 20 * time.Second

// Deployments is the kind that the suite uses.
var Deployments = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}

// Put is a PutObject whose body has the given size.
func Put(name string, size int) synchronizer.Message {
	body := make([]byte, 0, size)
	body = append(body, `{"kind":"Deployment","x":"`...)
	for len(body) < size-2 {
		body = append(body, 'a'+byte(len(body)%26))
	}
	return synchronizer.Message{
		Event: synchronizer.EventPut, Depth: 1, MsgID: "11111111-2222-4333-8444-555555555555", Kind: Deployments,
		Namespace: "default", Name: name, Checksum: strings.Repeat("0f", 32), Body: append(body, `"}`...),
	}
}

// Checksum is a NewChecksum.
func Checksum(name string) synchronizer.Message {
	return synchronizer.Message{
		Event: synchronizer.EventVerify, Depth: 1, MsgID: "11111111-2222-4333-8444-555555555555", Kind: Deployments,
		Namespace: "default", Name: name, Checksum: strings.Repeat("0f", 32),
	}
}

// Reconciliation is a reconciliation batch whose frame has at least the given size.
func Reconciliation(size int) synchronizer.Message {
	m := synchronizer.Message{Event: synchronizer.EventBatch, BatchType: "reconciliation", Depth: 2, MsgID: "id", Kind: Deployments}
	const item = 250 // bytes of a frame, at least
	for i := range size/item + 1 {
		m.Items = append(m.Items, synchronizer.Message{
			Event: synchronizer.EventVerify, Kind: Deployments, Namespace: "default",
			Name: fmt.Sprintf("object-%06d", i), ResourceVersion: int64(i), Checksum: strings.Repeat("0f", 32),
		})
	}
	return m
}

// Drops collects what a DropFunc is told.
type Drops struct {
	mu   sync.Mutex
	seen []string
}

// Drop is a synchronizer.DropFunc.
func (d *Drops) Drop(reason synchronizer.DropReason, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, string(reason)+": "+what)
}

// All is every drop so far, as "reason: what".
func (d *Drops) All() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.seen...)
}

// Reset forgets them.
func (d *Drops) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = nil
}

// Require waits until there are drops that begin with the given texts, in this
// order and no others.
func (d *Drops) Require(t *testing.T, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(d.All()) >= len(want) }, Limit, time.Millisecond, "want %q, got %q", want, d.All())
	all := d.All()
	require.Len(t, all, len(want))
	for i := range want {
		require.True(t, strings.HasPrefix(all[i], want[i]), "%q does not begin with %q", all[i], want[i])
	}
}
