// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"synchronizer"
	"synchronizer/internal/queue"
)

// session is one connection of one client; what it says has its name.
type session struct{ client, number int }

func (s session) object(k int) string {
	return fmt.Sprintf("c%04d-s%06d-%06d", s.client, s.number, k)
}

func readObject(name string) (s session, k int, err error) {
	_, err = fmt.Sscanf(name, "c%d-s%d-%d", &s.client, &s.number, &k)
	return s, k, err
}

// account is what the ledger has of a session.
type account struct {
	source string // of the connection, once something of it has come
	came   uint64 // seq 1 to came
	sent   int    // only of one that has ended
	whole  bool   // it ended in order: all that it sent has to come
}

// fleetLedger compares what comes out of the queue with what clients said: of each
// connection the records 1, 2, 3, … as they were said, and all of them if it ended
// in order.
type fleetLedger struct {
	mu       sync.Mutex
	accounts map[session]*account
	ended    map[int][]session // those of a client that did not end in order, oldest first
	came     int               // records
	repeated int
	problem  error // the first
}

// mostEnded is how many sessions of a client are remembered of which nothing need
// come any more.
const mostEnded = 8

func newFleetLedger() *fleetLedger {
	return &fleetLedger{accounts: map[session]*account{}, ended: map[int][]session{}}
}

func (l *fleetLedger) begin(s session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts[s] = &account{}
}

// end says how many messages a session has sent, and whether all of them have to
// come.
func (l *fleetLedger) end(s session, sent int, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[s]
	a.sent, a.whole = sent, whole
	if whole {
		l.settle(s, a)
		return
	}
	list := append(l.ended[s.client], s)
	if len(list) > mostEnded {
		delete(l.accounts, list[0])
		list = append(list[:0], list[1:]...)
	}
	l.ended[s.client] = list
}

// settle forgets a session of which all has come; the lock is held.
func (l *fleetLedger) settle(s session, a *account) {
	if a.whole && int(a.came) >= a.sent {
		delete(l.accounts, s)
	}
}

// read takes the records of a consumer until ctx ends.
func (l *fleetLedger) read(ctx context.Context, consumer synchronizer.Consumer) error {
	for {
		batch, err := consumer.Next(ctx, 500, 4<<20)
		if err == nil {
			for i := range batch.Records {
				l.take(&batch.Records[i])
			}
			err = batch.Ack(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading what came out of the queue: %w", err)
		}
	}
}

func (l *fleetLedger) take(r *synchronizer.Record) {
	if r.Property(queue.PropertyEvent) != synchronizer.EventPut.String() {
		return
	}
	m, err := queue.Decode(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		err = l.check(&m)
	}
	if l.problem == nil {
		l.problem = err
	}
}

// check needs the lock.
func (l *fleetLedger) check(m *synchronizer.Message) error {
	s, k, err := readObject(m.Name)
	if err != nil {
		return fmt.Errorf("reading the name %q: %w", m.Name, err)
	}
	a := l.accounts[s]
	if a == nil {
		return fmt.Errorf("record %d of session %v came after all of it had come, or long after it ended", m.Seq, s)
	}
	if a.source == "" {
		a.source = m.Source
	}
	switch {
	case m.ClusterID != soakCluster(s.client):
		return fmt.Errorf("%s came as %v", m.Name, m.ClusterID)
	case m.Source != a.source:
		return fmt.Errorf("%s came from the source %s and from %s", m.Name, a.source, m.Source)
	case m.Seq != uint64(k):
		return fmt.Errorf("%s has the seq %d", m.Name, m.Seq)
	case m.Seq <= a.came:
		l.repeated++
		return nil
	case m.Seq > a.came+1:
		return fmt.Errorf("lost: behind record %d of session %v came %d", a.came, s, m.Seq)
	}
	a.came++
	l.came++
	l.settle(s, a)
	return nil
}

// state is how many records came, an error if something is wrong, and what is owed
// by the queue.
func (l *fleetLedger) state() (came int, owed int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		if a.whole {
			owed += a.sent - int(a.came)
		}
	}
	return l.came, owed, l.problem
}

// report notes a problem that somebody else saw.
func (l *fleetLedger) report(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.problem == nil && !errors.Is(err, context.Canceled) {
		l.problem = err
	}
}

// forget empties the ledger, when all has come.
func (l *fleetLedger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accounts, l.ended = map[session]*account{}, map[int][]session{}
}
