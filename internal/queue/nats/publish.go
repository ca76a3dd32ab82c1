// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"synchronizer"
)

const (
	// inFlight bounds the bytes that are sent and not confirmed, over all calls;
	// it must stay below what the broker queues for a stream (128 MiB, 100,000).
	inFlight       = 16 << 20
	recordOverhead = 512 // headers, and the broker's own memory

	noAnswerAfter = 30 * time.Second // without any confirmation
	firstPause    = 20 * time.Millisecond
	longestPause  = time.Second
)

var (
	errNoAnswer = errors.New("broker does not confirm")
	errBroken   = errors.New("connection was interrupted")
	// errNoStream means that no stream takes what is sent.
	errNoStream = errors.New("no stream listens")
)

// publisher sends records and matches the broker's confirmations to them. Each
// attempt of a call is one flight; the confirmation of its record i comes on the
// subject <inbox>.<flight>.<i>.
type publisher struct {
	settings
	conn   *natsgo.Conn
	inbox  string // with a dot at the end
	sub    *natsgo.Subscription
	window *semaphore.Weighted

	mu      sync.Mutex
	last    uint64
	flights map[uint64]*flight
}

func newPublisher(conn *natsgo.Conn, set settings) (*publisher, error) {
	p := &publisher{
		settings: set, conn: conn, inbox: natsgo.NewInbox() + ".",
		window: semaphore.NewWeighted(inFlight), flights: map[uint64]*flight{},
	}
	var err error
	if p.sub, err = conn.Subscribe(p.inbox+"*.*", p.confirmed); err != nil {
		return nil, fmt.Errorf("subscribing to confirmations: %w", err)
	}
	return p, p.sub.SetPendingLimits(-1, -1) // bounded by the window
}

func (p *publisher) close() { _ = p.sub.Unsubscribe() }

// publish sends all records and waits for them. trouble is called with each
// refusal, before the next attempt.
func (p *publisher) publish(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record,
	trouble func(context.Context, error),
) error {
	var (
		tooLarge synchronizer.TooLargeError
		refusal  error // of an attempt before
		pause    = firstPause
		next     = 0
	)
	for next < len(records) {
		failed, large, err := p.attempt(ctx, to, records[next:])
		tooLarge.Take(large, next, failed)
		if err == nil {
			break
		}
		if failed > 0 {
			pause = firstPause
		}
		next += failed
		if ctx.Err() == nil {
			refusal = err
			trouble(ctx, err)
		}
		select {
		case <-ctx.Done():
			if refusal != nil && errors.Is(err, context.Cause(ctx)) {
				err = refusal // says more
			}
			return fmt.Errorf("publishing to %s: %w (%w)", to, context.Cause(ctx), err)
		case <-time.After(pause):
			pause = min(2*pause, longestPause)
		}
	}
	return tooLarge.OrNil()
}

// attempt sends the records once, in order, and waits until each is confirmed or
// known not to be. failed is the first that was not; everything from there on
// has to be sent again, or a record could stay behind a later one of its key.
// large are the records above the limit, which are not sent.
func (p *publisher) attempt(ctx context.Context, to synchronizer.Direction, records []synchronizer.Record) (failed int, large *synchronizer.TooLargeError, err error) {
	f := p.start(len(records))
	defer p.finish(f)
	large = &synchronizer.TooLargeError{}
	var (
		h      headers
		limit  = p.limit()
		reply  = p.inbox + strconv.FormatUint(f.id, 36) + "."
		msg    natsgo.Msg
		number [20]byte
	)
	for i := range records {
		if f.hasFailed() {
			break
		}
		r := &records[i]
		subject, hashed := p.subject(to, r.Key)
		header, size := p.headers(&h, r, hashed)
		if size > largestHeader || size+len(r.Payload) > limit {
			large.Add(i, fmt.Errorf("publishing to %s: record of %q with %d bytes: %w", to, r.Key, size+len(r.Payload), synchronizer.ErrTooLarge))
			continue
		}
		cost := min(int64(size+len(r.Payload)+recordOverhead), inFlight)
		if err := p.window.Acquire(ctx, cost); err != nil {
			f.fail(i, err)
			break
		}
		f.sent(i, cost)
		msg.Subject, msg.Header, msg.Data = subject, header, r.Payload
		msg.Reply = reply + string(strconv.AppendInt(number[:0], int64(i), 36))
		if err := p.conn.PublishMsg(&msg); err != nil {
			f.fail(i, fmt.Errorf("sending: %w", err))
			break
		}
	}
	failed, err = f.wait(ctx)
	return failed, large, err
}

// limit is what the broker takes now; it may have changed with a restart.
func (p *publisher) limit() int {
	if now := p.conn.MaxPayload(); now > 0 {
		return min(p.maxPayload, int(now))
	}
	return p.maxPayload
}

// disconnected fails what is not confirmed: no answer will come any more.
func (p *publisher) disconnected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.flights {
		f.lost(errBroken)
	}
}

// headers returns those of a record, and the bytes they take on the wire.
func (p *publisher) headers(h *headers, r *synchronizer.Record, hashed bool) (natsgo.Header, int) {
	if p.alone {
		return h.packed(r, hashed)
	}
	return h.of(r, hashed)
}

func (p *publisher) start(n int) *flight {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	f := &flight{id: p.last, window: p.window, cost: make([]int64, n), failed: n, done: make(chan struct{}, 1)}
	p.flights[f.id] = f
	return f
}

func (p *publisher) finish(f *flight) {
	p.mu.Lock()
	delete(p.flights, f.id)
	p.mu.Unlock()
	f.abandon()
}

// confirmed handles one answer of the broker.
func (p *publisher) confirmed(m *natsgo.Msg) {
	flightText, indexText, ok := strings.Cut(strings.TrimPrefix(m.Subject, p.inbox), ".")
	if !ok {
		return
	}
	id, err := strconv.ParseUint(flightText, 36, 64)
	if err != nil {
		return
	}
	i, err := strconv.ParseUint(indexText, 36, 31)
	if err != nil {
		return
	}
	p.mu.Lock()
	f := p.flights[id]
	p.mu.Unlock()
	if f != nil {
		f.answered(int(i), answer(m))
	}
}

// brokerError is the broker's refusal of a record.
type brokerError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *brokerError) Error() string { return e.Description }

// storeFailed is the broker's code for "could not be stored", which says why only
// in words.
const storeFailed = 10077

func isFull(err error) bool {
	var refused *brokerError
	return errors.As(err, &refused) && refused.ErrCode == storeFailed
}

// answer reads a confirmation: {"stream":…,"seq":…} or {"error":{…},…}; without
// a payload it is a status, such as 503 when nobody listens.
func answer(m *natsgo.Msg) error {
	if len(m.Data) == 0 {
		if m.Header.Get("Status") == "503" {
			return errNoStream
		}
		return fmt.Errorf("broker answered with status %s", m.Header.Get("Status"))
	}
	if !bytes.Contains(m.Data, []byte(`"error"`)) {
		if bytes.Contains(m.Data, []byte(`"duplicate":true`)) {
			// Never of ours, which carry no id to compare.
			return errors.New("broker took the record for a duplicate and did not store it")
		}
		return nil
	}
	var body struct {
		Error *brokerError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &body); err != nil {
		return fmt.Errorf("reading confirmation: %w", err)
	}
	if body.Error == nil {
		return nil
	}
	return body.Error
}
