// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"synchronizer"
)

const (
	// mostPulled bounds the records of one request, and with it the channel.
	mostPulled   = 2048
	pullExpires  = 30 * time.Second
	pullSilence  = 12 * time.Second // without a record or heartbeat the request is lost
	pullBeat     = 5 * time.Second
	statusIdle   = "100"
	largerThan   = "Message Size Exceeds MaxBytes"
	batchDone    = "Batch Completed"
	ackSubject   = "$JS.ACK."
	reasonHeader = "Description"
)

// errLost means that the consumer on the broker may be gone.
var errLost = errors.New("consumer is lost")

// puller reads the records of one JetStream consumer. It keeps one request open,
// so that what arrives while the caller works is already here: at most one
// request's records and bytes beyond what take has returned. One goroutine uses
// it, but for close and reconnected.
type puller struct {
	conn    *natsgo.Conn
	inbox   string
	arrived chan *natsgo.Msg
	subject string        // where requests go
	broken  chan struct{} // has a value when the connection was interrupted

	left   int  // records that the open request may still bring; 0 if there is none
	got    int  // records that it has brought
	room   int  // bytes that it may still bring; 0: no limit
	single bool // the next record is above the limit of bytes: ask for it alone
	heard  time.Time

	mu     sync.Mutex
	sub    *natsgo.Subscription
	closed bool
}

// newPuller makes one; aim must follow.
func newPuller(conn *natsgo.Conn) *puller {
	return &puller{conn: conn, broken: make(chan struct{}, 1)}
}

// aim sets the consumer that is read. What an earlier one still brings goes to an
// inbox of its own: the numbers of both would be mixed up, and with each new
// consumer again. The channel has room for all that two requests bring (one may be
// taken for lost and answer after all), since nats.go drops what does not fit.
func (p *puller) aim(stream, consumer string) error {
	inbox, arrived := natsgo.NewInbox(), make(chan *natsgo.Msg, 2*mostPulled+64)
	sub, err := p.conn.ChanSubscribe(inbox, arrived)
	if err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	p.inbox, p.arrived = inbox, arrived
	p.subject = "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer
	p.left, p.single = 0, false
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sub != nil {
		_ = p.sub.Unsubscribe()
	}
	p.sub = sub
	if p.closed {
		_ = sub.Unsubscribe()
	}
	return nil
}

func (p *puller) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sub != nil {
		_ = p.sub.Unsubscribe()
	}
}

// reconnected implements reader.
func (p *puller) reconnected() {
	select {
	case p.broken <- struct{}{}:
	default:
	}
}

// take waits for a record and returns what has arrived, at most so many records
// and about so many bytes.
func (p *puller) take(ctx context.Context, most, bytes int) ([]*natsgo.Msg, error) {
	most = max(1, min(most, mostPulled))
	bytes = max(1, bytes)
	var (
		msgs []*natsgo.Msg
		size int
	)
	for {
		if err := ctx.Err(); err != nil {
			return msgs, context.Cause(ctx)
		}
	drain:
		for len(msgs) < most && size < bytes {
			select {
			case m := <-p.arrived:
				isRecord, err := p.note(m)
				if err != nil {
					return msgs, err
				}
				if isRecord {
					if msgs == nil {
						msgs = make([]*natsgo.Msg, 0, min(most, len(p.arrived)+1))
					}
					msgs = append(msgs, m)
					size += len(m.Data)
				}
			default:
				break drain
			}
		}
		if p.left == 0 {
			if err := p.request(most, bytes); err != nil && len(msgs) == 0 {
				return nil, err
			}
		}
		if len(msgs) > 0 {
			return msgs, nil
		}
		m, err := p.wait(ctx)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		isRecord, err := p.note(m)
		if err != nil {
			return nil, err
		}
		if isRecord {
			msgs, size = append(msgs, m), len(m.Data)
		}
	}
}

// wait returns the next message, or nil if the request has to be made again.
func (p *puller) wait(ctx context.Context) (*natsgo.Msg, error) {
	timer := time.NewTimer(time.Until(p.heard.Add(pullSilence)))
	defer timer.Stop()
	select {
	case m := <-p.arrived:
		return m, nil
	case <-timer.C:
		p.left = 0
		return nil, errLost
	case <-p.broken:
		p.left = 0
		return nil, errLost
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *puller) request(most, bytes int) error {
	limit := `,"max_bytes":` + strconv.Itoa(bytes)
	if p.single {
		most, bytes, limit = 1, 0, ""
	}
	body := `{"batch":` + strconv.Itoa(most) + limit +
		`,"expires":` + strconv.FormatInt(int64(pullExpires), 10) +
		`,"idle_heartbeat":` + strconv.FormatInt(int64(pullBeat), 10) + `}`
	if err := p.conn.PublishRequest(p.subject, p.inbox, []byte(body)); err != nil {
		return fmt.Errorf("%w: asking for records: %w", errLost, err)
	}
	p.left, p.got, p.room, p.single, p.heard = most, 0, bytes, false, time.Now()
	return nil
}

// note keeps count of the open request. What is not a record says how the
// request went.
func (p *puller) note(m *natsgo.Msg) (isRecord bool, err error) {
	p.heard = time.Now()
	if strings.HasPrefix(m.Reply, ackSubject) {
		p.left, p.got = max(0, p.left-1), p.got+1
		if usedUp(&p.room, m.Size()) {
			p.left = 0
		}
		return true, nil
	}
	status, reason := m.Header.Get("Status"), m.Header.Get(reasonHeader)
	switch {
	case status == statusIdle:
	case status == "408", status == "404", status == "409" && reason == batchDone:
		p.left = 0
	case status == "409" && reason == largerThan:
		p.left, p.single = 0, p.got == 0
	default:
		p.left = 0
		return false, fmt.Errorf("%w: broker answered with %s %s", errLost, status, reason)
	}
	return false, nil
}

// usedUp takes the bytes of a record from what a request may still bring. The broker
// ends a request whose bytes are used up exactly without a word.
func usedUp(room *int, size int) bool {
	if *room == 0 {
		return false
	}
	*room = max(0, *room-size)
	return *room == 0
}

// place is where a message stands: its number in the stream and among what the
// consumer delivered.
func place(m *natsgo.Msg) (stream, delivered uint64, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return 0, 0, fmt.Errorf("reading place of a record: %w", err)
	}
	return meta.Sequence.Stream, meta.Sequence.Consumer, nil
}

// record is the reverse of what publish sends.
func record(m *natsgo.Msg, partition string, number uint64) synchronizer.Record {
	list, key := properties(m.Header)
	if key == "" {
		key, _ = textOf(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	}
	return synchronizer.Record{Key: key, Properties: list, Payload: m.Data, Partition: partition, Position: number}
}
