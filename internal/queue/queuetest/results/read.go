// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// event is one line of "go test -json".
type event struct {
	Time    time.Time
	Action  string
	Package string
	Test    string
	Key     string // of an attribute
	Value   string
	Output  string
}

// cell is one scenario on one broker.
type cell struct {
	outcome string // "pass", "fail", or "" while it runs
	none    string // why the broker has no such thing
	output  strings.Builder
}

// suite is the suite on one broker.
type suite struct {
	name    string
	version string
	cells   map[string]*cell // by the test's name below the suite's
}

// results is everything that was read.
type results struct {
	date   time.Time
	suites map[string]*suite // by package and test
	rows   []string          // names of tests, in the order in which they appeared
	what   map[string]string // what a row says, by name
}

func read(in io.Reader) (*results, error) {
	r := &results{suites: map[string]*suite{}, what: map[string]string{}}
	decoder := json.NewDecoder(in)
	for {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return r, nil
		} else if err != nil {
			return nil, fmt.Errorf("decoding a line of go test -json: %w", err)
		}
		r.add(&e)
	}
}

func (r *results) add(e *event) {
	if e.Time.After(r.date) {
		r.date = e.Time
	}
	top, name, _ := strings.Cut(e.Test, "/")
	if top == "" {
		return
	}
	s := r.suites[e.Package+" "+top]
	if s == nil {
		s = &suite{cells: map[string]*cell{}}
		r.suites[e.Package+" "+top] = s
	}
	c := s.cells[name]
	if c == nil {
		c = &cell{}
		s.cells[name] = c
	}
	switch e.Action {
	case "attr":
		switch e.Key {
		case "broker":
			s.name = e.Value
		case "version":
			s.version = e.Value
		case "scenario":
			if _, known := r.what[name]; !known {
				r.place(name)
			}
			r.what[name] = e.Value
		case "none":
			c.none = e.Value
		}
	case "output":
		c.output.WriteString(e.Output)
	case "pass", "fail":
		c.outcome = e.Action
	case "skip":
		c.outcome, c.none = "pass", "skipped"
	}
}

// place puts a row behind the last one that has the same parent, or is it.
func (r *results) place(name string) {
	at := len(r.rows)
	if parent, _, below := strings.Cut(name, "/"); below {
		for i, row := range r.rows {
			if row == parent || strings.HasPrefix(row, parent+"/") {
				at = i + 1
			}
		}
	}
	r.rows = append(r.rows[:at], append([]string{name}, r.rows[at:]...)...)
}

var natsServer = regexp.MustCompile(`github\.com/nats-io/nats-server/v2 v(\S+)`)

// readVersion takes the version of the broker that is a module of ours.
func (r *results) readVersion(mod string) {
	found := natsServer.FindStringSubmatch(mod)
	if found == nil {
		return
	}
	for _, s := range r.suites {
		switch s.name {
		case "embedded":
			s.version = "nats-server " + found[1] + " in the process"
		case "nats":
			s.version = "nats-server " + found[1] + " in a process of its own"
		}
	}
}
