// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Progress is a line on a terminal that shows how far long work has come. A nil
// *Progress shows nothing.
type Progress struct {
	out io.Writer

	mu        sync.Mutex
	what      string
	total     int
	done      int
	started   time.Time
	lastDrawn time.Time
}

// NewProgress draws on out, which is a terminal.
func NewProgress(out io.Writer) *Progress { return &Progress{out: out} }

const (
	barWidth = 30
	drawGap  = 100 * time.Millisecond
)

// Start begins a piece of work of so many steps; 0 means that nobody knows.
func (p *Progress) Start(what string, total int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.total, p.done, p.started = what, total, 0, time.Now()
	p.draw()
}

// Set tells how many steps are done.
func (p *Progress) Set(done int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = done
	if time.Since(p.lastDrawn) >= drawGap {
		p.draw()
	}
}

// Add tells that more steps are done.
func (p *Progress) Add(steps int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += steps
	if time.Since(p.lastDrawn) >= drawGap {
		p.draw()
	}
}

// Stop removes the line.
func (p *Progress) Stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.out, "\r\x1b[K")
}

func (p *Progress) draw() {
	p.lastDrawn = time.Now()
	line := fmt.Sprintf("%-12s", p.what)
	if p.total > 0 {
		full := barWidth * min(p.done, p.total) / p.total
		line += fmt.Sprintf(" [%s%s] %d/%d", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), p.done, p.total)
	}
	_, _ = fmt.Fprintf(p.out, "\r%s  %ds\x1b[K", line, int(time.Since(p.started).Seconds()))
}
