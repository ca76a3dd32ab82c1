// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Event is one strike of a fault.
type Event struct {
	Time       time.Time
	Fault      string // as its String says
	Request    int    // ID of the Record; 0 = none
	Connection int
	Detail     string // the request, or the event that was dropped
}

// Record is one request. Times are those of the proxy.
type Record struct {
	ID         int // from 1, in the order of their start
	Connection int // number of the TCP connection, from 1
	Method     string
	Path       string
	Query      url.Values
	Start      time.Time
	End        time.Time // zero while it runs
	Status     int       // 0 as long as there is no answer
	Bytes      int       // of the answer's body
	Events     int       // of a watch that have passed
	Faults     []string  // that struck it

	target target
}

// Log returns all strikes in their order.
func (p *Proxy) Log() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// Count returns how often faults of this name have struck: those of the same
// type, for an Answer of the same code.
func (p *Proxy) Count(fault Fault) int {
	count := 0
	for _, e := range p.Log() {
		if e.Fault == fault.String() {
			count++
		}
	}
	return count
}

// Requests returns the matching requests in the order of their start. Nth,
// Times and Sometimes do not count here.
func (p *Proxy) Requests(match Match) []Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Record
	for _, r := range p.requests {
		if match.matches(r.target) {
			one := *r
			one.Faults = slices.Clone(r.Faults)
			found = append(found, one)
		}
	}
	return found
}

// Open returns how many matching requests run now.
func (p *Proxy) Open(match Match) int {
	count := 0
	for _, r := range p.Requests(match) {
		if r.End.IsZero() {
			count++
		}
	}
	return count
}

// PerMinute returns how many matching requests started in each minute since New.
func (p *Proxy) PerMinute(match Match) []int {
	counts := make([]int, int(time.Since(p.begun)/time.Minute)+1)
	for _, r := range p.Requests(match) {
		if minute := int(r.Start.Sub(p.begun) / time.Minute); minute < len(counts) {
			counts[minute]++
		}
	}
	return counts
}

// Peak returns the largest number of matching requests that started within any
// window of this length.
func (p *Proxy) Peak(match Match, window time.Duration) int {
	requests, peak, from := p.Requests(match), 0, 0
	for to := range requests {
		for requests[to].Start.Sub(requests[from].Start) >= window {
			from++
		}
		peak = max(peak, to-from+1)
	}
	return peak
}

// record begins the record of e. The caller holds mu, as for note.
func (p *Proxy) record(e *exchange) {
	e.id = len(p.requests) + 1
	p.requests = append(p.requests, &Record{
		ID: e.id, Connection: e.connection.number, Method: e.r.Method, Path: e.r.URL.Path,
		Query: e.target.query, Start: time.Now(), target: e.target,
	})
}

func (p *Proxy) note(e Event) {
	e.Time = time.Now()
	p.log = append(p.log, e)
}

// change lets do change the record of a request.
func (p *Proxy) change(id int, do func(*Record)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do(p.requests[id-1])
}

func (p *Proxy) answered(id, status int) { p.change(id, func(r *Record) { r.Status = status }) }
func (p *Proxy) sent(id, bytes int)      { p.change(id, func(r *Record) { r.Bytes += bytes }) }
func (p *Proxy) told(id int)             { p.change(id, func(r *Record) { r.Events++ }) }
func (p *Proxy) ended(id int)            { p.change(id, func(r *Record) { r.End = time.Now() }) }

// struck logs that a fault hit e.
func (p *Proxy) struck(a *Armed, e *exchange, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hit(a, e, detail)
}

func (p *Proxy) hit(a *Armed, e *exchange, detail string) {
	a.hits++
	record, name := p.requests[e.id-1], a.fault.String()
	if !slices.Contains(record.Faults, name) {
		record.Faults = append(record.Faults, name)
	}
	if detail == "" {
		detail = e.r.Method + " " + e.r.URL.RequestURI()
	}
	p.note(Event{Fault: name, Request: e.id, Connection: e.connection.number, Detail: detail})
}

// dropped tells whether f keeps said back, and counts it then.
func (p *Proxy) dropped(f *running, e *exchange, said event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !f.drops(said, f.hits) {
		return false
	}
	about := said.Object.Metadata
	p.hit(f.Armed, e, fmt.Sprintf("%s %s/%s", said.Type, about.Namespace, about.Name))
	return true
}

func (p *Proxy) register(e *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[e] = struct{}{}
}

func (p *Proxy) unregister(e *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watches, e)
}

// watchesInOrder returns the open watches in the order of their start. The caller holds mu.
func (p *Proxy) watchesInOrder() []*exchange {
	watches := make([]*exchange, 0, len(p.watches))
	for e := range p.watches {
		watches = append(watches, e)
	}
	slices.SortFunc(watches, func(a, b *exchange) int { return cmp.Compare(a.id, b.id) })
	return watches
}
