// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/google/uuid"

	"synchronizer"
)

// Link v1 says of an object that was added its checksum (and the backend asks
// for the body if it does not have it), of one that was modified the body, of
// one that was deleted the key. There are no baselines yet, so that strategy
// patch sends whole objects, as it may.
//
// Single messages carry no resourceVersion, a first message has depth 1 and an
// id of its own, and an answer keeps the id and adds one to the depth.

func verifyV1(kind synchronizer.Kind, k key, checksum string) synchronizer.Message {
	return firstV1(synchronizer.EventVerify, kind, k, checksum, nil)
}

func putV1(kind synchronizer.Kind, k key, checksum string, body []byte, answer *request) synchronizer.Message {
	msg := firstV1(synchronizer.EventPut, kind, k, checksum, body)
	if answer != nil {
		msg.MsgID, msg.Depth = answer.msgID, answer.depth+1
	}
	return msg
}

func deleteV1(kind synchronizer.Kind, k key) synchronizer.Message {
	return firstV1(synchronizer.EventDelete, kind, k, "", nil)
}

func firstV1(event synchronizer.Event, kind synchronizer.Kind, k key, checksum string, body []byte) synchronizer.Message {
	return synchronizer.Message{
		Event: event, Depth: 1, MsgID: uuid.NewString(),
		Kind: kind, Namespace: k.namespace.Value(), Name: k.name,
		Checksum: checksum, Body: body,
	}
}
