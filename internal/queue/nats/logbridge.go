// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// bridge takes the broker's log: warnings and errors go on, the rest does not.
type bridge struct {
	logger *slog.Logger

	mu    sync.Mutex
	fault string // the last error
	fatal bool
}

func (b *bridge) Noticef(string, ...any) {}
func (b *bridge) Debugf(string, ...any)  {}
func (b *bridge) Tracef(string, ...any)  {}

func (b *bridge) Warnf(format string, v ...any) {
	b.logger.Warn("queue: " + fmt.Sprintf(format, v...))
}

func (b *bridge) Errorf(format string, v ...any) {
	b.keep(fmt.Sprintf(format, v...))
	b.logger.Error("queue: " + fmt.Sprintf(format, v...))
}

// Fatalf is what the broker says before it gives up; it does not end the process.
func (b *bridge) Fatalf(format string, v ...any) {
	b.keep(fmt.Sprintf(format, v...))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fatal = true
}

func (b *bridge) gaveUp() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fatal
}

func (b *bridge) keep(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = text
}

// last is the last error that the broker named.
func (b *bridge) last() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fault == "" {
		return errors.New("broker did not get ready")
	}
	return errors.New(b.fault)
}
