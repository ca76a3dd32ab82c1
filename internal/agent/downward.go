// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"synchronizer"
	"synchronizer/internal/wire"
)

// dispatch hands a message of the backend to whom it concerns: requests and
// reconciliations to the owner of the kind, statements to the writer.
func (a *Agent) dispatch(s *session, msg *synchronizer.Message) {
	switch {
	case msg.Event == synchronizer.EventPing:
	case msg.Event == synchronizer.EventBatch:
		a.unpack(s, msg)
	case !msg.Event.AboutObject():
		a.drop(synchronizer.DropUnsupported, msg)
	default:
		a.single(s, msg)
	}
}

// unpack handles a batch: a reconciliation, or items that mean what they would
// mean alone, in the order in which they stand there.
func (a *Agent) unpack(s *session, msg *synchronizer.Message) {
	switch msg.BatchType {
	case "":
		for i := range msg.Items {
			item := &msg.Items[i]
			if item.MsgID == "" {
				item.MsgID = msg.MsgID
			}
			item.Depth, item.TraceParent = max(item.Depth, msg.Depth), msg.TraceParent
			if !item.Event.AboutObject() {
				a.drop(synchronizer.DropUnsupported, item)
				continue
			}
			a.single(s, item)
		}
	case wire.Reconciliation:
		a.reconcile(s, msg)
	default:
		a.drop(synchronizer.DropUnsupported, msg)
	}
}

// reconcile hands a reconciliation to the owner of its kind. An empty one says
// that the backend has nothing of the kind.
func (a *Agent) reconcile(s *session, msg *synchronizer.Message) {
	owner := a.running.stream(msg.Kind)
	if owner == nil {
		a.drop(synchronizer.DropNotConfigured, msg)
		return
	}
	msg.Items = slices.DeleteFunc(msg.Items, func(item synchronizer.Message) bool {
		known := item.Event == synchronizer.EventVerify && item.Kind == msg.Kind
		if !known {
			a.drop(synchronizer.DropUnsupported, &item)
		}
		return !known
	})
	owner.inbox.put(request{session: s, batch: newBatch(s, msg)})
}

func (a *Agent) single(s *session, msg *synchronizer.Message) {
	owner := a.running.stream(msg.Kind)
	switch {
	case owner == nil:
		a.drop(synchronizer.DropNotConfigured, msg)
	case msg.Event == synchronizer.EventGet:
		owner.inbox.put(request{session: s, key: keyOf(msg.Namespace, msg.Name), msgID: msg.MsgID, depth: msg.Depth, trace: msg.TraceParent})
	case msg.Event == synchronizer.EventVerify, a.options.Applier == nil:
		// A checksum is about what the cluster has, and the cluster knows better.
		a.drop(synchronizer.DropUnsupported, msg)
	default:
		a.writer.put(write{session: s, owner: owner, msg: *msg})
	}
}

// Configured gives the configuration of a kind that is synchronized now, be it
// because a wildcard means it.
func (a *Agent) Configured(kind synchronizer.Kind) (KindConfig, bool) {
	s := a.running.stream(kind)
	if s == nil {
		return KindConfig{}, false
	}
	return s.config, true
}
