// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What one member asks for ahead, over all its partitions.
const (
	aheadRecords = 4096
	aheadBytes   = 8 << 20
	leastRecords = 64
	leastBytes   = 256 << 10
)

// handle takes a record or a status of the open request.
func (p *part) handle(msg *natsgo.Msg) {
	p.heard = time.Now()
	if !strings.HasPrefix(msg.Reply, ackSubject) {
		p.status(msg)
		return
	}
	p.left, p.got = max(0, p.left-1), p.got+1
	if usedUp(&p.room, sizeBeforePin(msg)) {
		p.left = 0
	}
	number, delivered, err := place(msg)
	if err != nil {
		p.renew()
		return
	}
	if pin := first(msg.Header[pinHeader]); pin != p.pin {
		p.forget()
		p.pin, p.since, p.next = pin, delivered, delivered
		if p.state = reading; delivered > 1 {
			p.state = checking
			p.check(func(info *jetstream.ConsumerInfo) bool { return info.AckFloor.Consumer+1 == p.since })
		}
	}
	if delivered != p.next {
		p.renew()
		return
	}
	p.next++
	p.buffered++
	p.bytes += len(msg.Data)
	d := delivery{p, p.generation, number, msg}
	if p.state == checking {
		p.held = append(p.held, d)
		return
	}
	p.m.deliver(d)
}

// sizeBeforePin is the size of a record as the broker counts it for a request: the
// header that names the pin is added later.
func sizeBeforePin(msg *natsgo.Msg) int {
	pin := len(pinHeader) + len(first(msg.Header[pinHeader])) + lineFrame
	if len(msg.Header) == 1 {
		pin += headerFrame
	}
	return msg.Size() - pin
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// status is how the open request went.
func (p *part) status(msg *natsgo.Msg) {
	status, reason := msg.Header.Get("Status"), msg.Header.Get(reasonHeader)
	switch {
	case status == statusIdle:
	case status == "408", status == "404", status == "409" && reason == batchDone:
		p.left = 0
	case status == "409" && reason == largerThan:
		p.left, p.single = 0, p.got == 0
	case status == statusPin:
		p.lose()
	default: // the consumer is gone, or nobody answers
		p.renew()
	}
}

// beat keeps the pin, and notices when the broker is silent.
func (p *part) beat(now time.Time) {
	if (p.state == reading || p.state == waiting) && p.left > 0 && now.Sub(p.heard) > pullSilence {
		p.doubt()
	}
	if p.pin != "" && now.Sub(p.asked) > p.m.q.timing.pinTTL/4 {
		// Asks for less than any record has: the answer is a status.
		p.publish(p.m.alive+strconv.Itoa(p.number)+"."+strconv.FormatUint(p.generation, 10), `{"batch":1,"max_bytes":1,"no_wait":true`)
	}
}

// refill asks for records if there is room. mine is how many partitions share it.
func (p *part) refill(mine int) {
	if p.state != reading && p.state != waiting || p.left > 0 {
		return
	}
	records, bytes := max(leastRecords, aheadRecords/mine), max(leastBytes, aheadBytes/mine)
	if p.buffered > records/2 || p.bytes > bytes/2 {
		return
	}
	limit := `,"max_bytes":` + strconv.Itoa(bytes)
	if p.single {
		records, bytes, limit = 1, 0, ""
	}
	if p.publish(p.sub.Subject, `{"batch":`+strconv.Itoa(records)+limit+`,"expires":`+strconv.FormatInt(int64(pullExpires), 10)+
		`,"idle_heartbeat":`+strconv.FormatInt(int64(pullBeat), 10)) {
		p.left, p.got, p.room, p.single, p.heard = records, 0, bytes, false, p.asked
	}
}

func (p *part) publish(reply, request string) bool {
	request += `,"group":"` + priorityGroup + `"`
	if p.pin != "" {
		request += `,"id":"` + p.pin + `"`
	}
	err := p.m.q.read.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+p.m.stream+"."+p.consumer, reply, []byte(request+"}"))
	if err == nil {
		p.asked = time.Now()
	}
	return err == nil
}
