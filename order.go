// SPDX-License-Identifier: Apache-2.0

package synchronizer

import "cmp"

// Stamp says who sent a message and as which one. Order per object is built on
// it alone, never on clocks.
type Stamp struct {
	// Source is the sender: on link v1 the id of the connection (given by the
	// relay), on link v2 the id of the client's process.
	Source string
	// Seq counts the messages of Source, from 1, without gaps. Zero means that
	// nothing was stamped (a server of another make).
	Seq uint64
}

// Order places a statement about an object among all others of its cluster.
// The store gives a source the cluster's next generation in the transaction that
// first sees the source; so a connection that was accepted later always wins
// over an earlier one, and within a connection the sequence decides.
type Order struct {
	Generation int64
	Seq        uint64
}

// Compare returns -1, 0 or +1 as o is older than, the same as or newer than p.
func (o Order) Compare(p Order) int {
	if c := cmp.Compare(o.Generation, p.Generation); c != 0 {
		return c
	}
	return cmp.Compare(o.Seq, p.Seq)
}
