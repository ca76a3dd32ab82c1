// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"slices"
	"strings"
	"unique"

	"synchronizer"
)

// pass is a part of the answer to a reconciliation; one follows the other.
type pass uint8

const (
	passAbsent   pass = iota // listed and absent: deleted
	passChanged              // listed with another resourceVersion: the whole object
	passUnlisted             // present and not listed: the checksum
	passEnd
)

// batch is a reconciliation: all objects of the kind that the backend has. It is
// answered when the kind was read completely, and each answer is decided on at
// the moment at which it is said. What is absent is looked for once more, and
// bodies are read, by a GET each or, if many are needed, by a list.
type batch struct {
	session *session
	msgID   string
	depth   int
	trace   string
	items   []synchronizer.Message // as they came
	order   []int32                // of items, by namespace and name
	near    unique.Handle[string]  // the namespace that was looked up last

	pass   pass
	begun  bool // the pass
	byList bool
	listed bool   // byList: the list is complete
	cursor int    // of items or, in passUnlisted, of keys
	keys   []key  // passUnlisted without a list: those to be read
	done   []bool // byList: items that the list gave, or that were answered
	open   int    // GETs that are wanted and have not ended
	unread bool   // a GET of passAbsent has failed: a list is to tell
}

func newBatch(s *session, msg *synchronizer.Message) *batch {
	return &batch{session: s, msgID: msg.MsgID, depth: msg.Depth, trace: msg.TraceParent, items: msg.Items}
}

// find gives the index of an object among the items; -1 if it is not listed.
func (b *batch) find(k key) int {
	if b.order == nil {
		b.order = make([]int32, len(b.items))
		for i := range b.order {
			b.order[i] = int32(i)
		}
		slices.SortFunc(b.order, func(i, j int32) int {
			return compareNames(b.items[i].Namespace, b.items[i].Name, b.items[j].Namespace, b.items[j].Name)
		})
	}
	namespace := k.namespace.Value()
	at, found := slices.BinarySearchFunc(b.order, k, func(i int32, k key) int {
		return compareNames(b.items[i].Namespace, b.items[i].Name, namespace, k.name)
	})
	if !found {
		return -1
	}
	return int(b.order[at])
}

func compareNames(namespace, name, otherNamespace, otherName string) int {
	return cmp.Or(strings.Compare(namespace, otherNamespace), strings.Compare(name, otherName))
}

// key is that of an item. Its name is part of the batch, which may be one large
// text: what is kept is a clone.
func (b *batch) key(i int) key {
	if namespace := b.items[i].Namespace; b.near == (unique.Handle[string]{}) || b.near.Value() != namespace {
		b.near = unique.Make(namespace)
	}
	return key{b.near, b.items[i].Name}
}

func (b *batch) request(k key, tell effectType, listed string) request {
	return request{session: b.session, key: k, msgID: b.msgID, depth: b.depth, trace: b.trace, batch: b, tell: tell, listed: listed}
}

// differs tells whether an item names another resourceVersion; 0 always is one.
func (b *batch) differs(i int, version uint64) bool {
	listed := b.items[i].ResourceVersion
	return listed <= 0 || uint64(listed) != version
}

// unreal tells whether no object can have this name: backends list such a one
// where they have nothing, because older clients refuse empty lists.
func unreal(name string) bool { return name == "" || strings.ContainsAny(name, "%/") }
