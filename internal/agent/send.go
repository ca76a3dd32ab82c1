// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"time"

	"synchronizer"
	"synchronizer/internal/checksum"
)

// Messages that are ready at the same time go in one Send, at most so many and
// about so many bytes.
const (
	batchMessages = 64
	batchBytes    = 256 << 10
)

const (
	// slowSend is how long a Send may take before its messages are noted as sent
	// later than they were decided on.
	slowSend = time.Second
	// busySend is how long one takes on a link that is busy.
	busySend = 200 * time.Millisecond
)

// verify says the checksum of an object and keeps its body.
func (s *stream) verify(e *effect) {
	s.agent.baselines.Remove(slotKey{s, e.key}) // whether the backend has the object is the question
	if sum, ok := s.checksum(e.key, e.item.body); ok {
		s.agent.pool.add(s, e.key, offer{digest: e.item.digest, version: e.item.version, checksum: sum, body: e.item.body})
		s.send(inAnswer(verifyV1(s.kind, e.key, sum), e.answer))
	}
}

// put says the state of an object: as a patch if that carries it exactly, else
// whole. What the backend asked for goes whole.
func (s *stream) put(e *effect) {
	body, sum := e.item.body, ""
	if e.offer != nil {
		body, sum = e.offer.body, e.offer.checksum
	} else {
		s.agent.pool.forget(s, e.key)
	}
	if e.answer != nil {
		s.agent.pool.answer(s.now())
	} else if change, ok := s.change(e.key, body); ok {
		if change == nil {
			return
		}
		if sum, ok := s.checksum(e.key, body); ok {
			s.send(patchV1(s.kind, e.key, sum, change))
			s.remember(e.key, body)
		}
		return
	}
	if sum == "" {
		var ok bool
		if sum, ok = s.checksum(e.key, body); !ok {
			return
		}
	}
	if e.answer != nil && e.answer.listed == sum {
		return // the backend has it, under another resourceVersion
	}
	s.send(inAnswer(putV1(s.kind, e.key, sum, body), e.answer))
	s.remember(e.key, body)
}

func (s *stream) checksum(k key, body []byte) (string, bool) {
	sum, err := checksum.ObjectV1(body)
	if err != nil {
		s.agent.options.Drop(synchronizer.DropUnreadable, s.kind.String()+" "+k.String()+": "+err.Error())
	}
	return sum, err == nil
}

func (s *stream) send(msg synchronizer.Message) {
	s.out = append(s.out, msg)
	s.size += msg.Size()
}

// flush sends what was collected. What cannot be sent is as if it had not been
// decided: the keys are dirty.
func (s *stream) flush() {
	s.withhold()
	if len(s.out) == 0 {
		return
	}
	err := error(synchronizer.ErrDisconnected)
	started := s.now()
	if s.session != nil {
		err = s.session.link.Send(s.life, s.out...)
	}
	now := s.now()
	switch {
	case err == nil, errors.Is(err, synchronizer.ErrTooLarge):
		// What is too large for the link was counted and named there; the others were sent.
		for i := range s.out {
			k := keyOf(s.out[i].Namespace, s.out[i].Name)
			s.metrics.sent(s.out[i].Event)
			if now.Sub(started) > slowSend && s.out[i].Event != synchronizer.EventGet {
				s.machine.sentAgain(now, k)
			}
			if err != nil { // it is not known which
				s.agent.baselines.Remove(slotKey{s, k})
			}
		}
		full := len(s.out) >= batchMessages || s.size >= batchBytes
		s.machine.flushed(full, now.Sub(started) > busySend)
	default:
		for i := range s.out {
			if s.out[i].Event != synchronizer.EventGet { // it says nothing of the object
				s.machine.unsent(keyOf(s.out[i].Namespace, s.out[i].Name))
			}
		}
		if s.session != nil {
			s.session.end(now, err)
			s.lose(s.session.at)
		}
	}
	clear(s.out)
	s.out, s.size = s.out[:0], 0
}
