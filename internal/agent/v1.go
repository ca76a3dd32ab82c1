// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"github.com/google/uuid"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/patch"
	"synchronizer/internal/rawjson"
)

// Link v1 says of an object that was added its checksum (and the backend asks
// for the body if it does not have it), of one that was modified the body or,
// with strategy patch, a merge patch, of one that was deleted the key.
//
// A patch is against the baseline: the body that was last sent, which the
// backend therefore has. Whatever makes that uncertain removes the baseline: a
// checksum, a request of the backend, a deletion, a link that broke.
//
// Single messages carry no resourceVersion, a first message has depth 1 and an
// id of its own, and an answer keeps the id and adds one to the depth.

func verifyV1(kind synchronizer.Kind, k key, checksum string) synchronizer.Message {
	return firstV1(synchronizer.EventVerify, kind, k, checksum, nil)
}

func putV1(kind synchronizer.Kind, k key, checksum string, body []byte) synchronizer.Message {
	return firstV1(synchronizer.EventPut, kind, k, checksum, body)
}

func patchV1(kind synchronizer.Kind, k key, checksum string, change []byte) synchronizer.Message {
	return firstV1(synchronizer.EventPatch, kind, k, checksum, change)
}

func deleteV1(kind synchronizer.Kind, k key) synchronizer.Message {
	return firstV1(synchronizer.EventDelete, kind, k, "", nil)
}

func getV1(kind synchronizer.Kind, k key) synchronizer.Message {
	return firstV1(synchronizer.EventGet, kind, k, "", nil)
}

// inAnswer makes a message the answer to a request; without one it stays a first
// message.
func inAnswer(msg synchronizer.Message, to *request) synchronizer.Message {
	if to != nil {
		msg.MsgID, msg.Depth, msg.TraceParent = to.msgID, to.depth+1, to.trace
	}
	return msg
}

func firstV1(event synchronizer.Event, kind synchronizer.Kind, k key, checksum string, body []byte) synchronizer.Message {
	return synchronizer.Message{
		Event: event, Depth: 1, MsgID: uuid.NewString(),
		Kind: kind, Namespace: k.namespace.Value(), Name: k.name,
		Checksum: checksum, Body: body,
	}
}

func (s *stream) patches() bool {
	return s.config.Strategy == StrategyPatch && s.config.Mode != ModeEvent
}

// change gives the patch that turns what the backend has into body; nil if
// nothing is to be sent. It is not ok if the whole object is to be sent: there is
// no baseline, a patch is not exact, or not shorter.
func (s *stream) change(k key, body []byte) (change []byte, ok bool) {
	if !s.patches() {
		return nil, false
	}
	base, ok := s.agent.baselines.Get(slotKey{s, k}, s.base)
	if !ok {
		return nil, false
	}
	diff, exact, err := patch.Diff(s.diff[:0], base, body)
	s.base, s.diff = reuse(base), reuse(diff)
	switch {
	case err != nil, !exact, len(diff) >= len(body):
		return nil, false
	case string(diff) == "{}", patch.OnlyResourceVersion(diff):
		return nil, true
	}
	return bytes.Clone(diff), true
}

// reuse gives a buffer back for the next object unless it is very large.
func reuse(buffer []byte) []byte {
	if cap(buffer) > maxScratch {
		return nil
	}
	return buffer
}

// remember makes body the baseline of an object.
func (s *stream) remember(k key, body []byte) {
	if s.patches() {
		s.agent.baselines.Put(slotKey{s, k}, body)
	}
}

func (s *stream) forgetBaselines() {
	s.agent.baselines.RemoveFunc(func(k slotKey) bool { return k.owner == s })
}

// fingerprintOf is checksum v1 of an object without its resourceVersion, cut to
// 64 bits: objects that differ only in the order of arrays have the same one.
// Zero if there is none.
func fingerprintOf(body []byte) uint64 {
	masked := bytes.Clone(body)
	if version, err := rawjson.Get(masked, "metadata", "resourceVersion"); err == nil && len(version) >= 2 {
		version[0], version[1] = '"', '"'
		for i := range version[2:] {
			version[2+i] = ' '
		}
	}
	sum, err := checksum.V1(masked)
	if err != nil {
		return 0
	}
	var head [8]byte
	if _, err := hex.Decode(head[:], []byte(sum[:16])); err != nil {
		return 0
	}
	return binary.BigEndian.Uint64(head[:])
}
