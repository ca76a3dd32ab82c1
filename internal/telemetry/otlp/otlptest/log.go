// SPDX-License-Identifier: Apache-2.0

package otlptest

import (
	"bytes"
	"sync"
)

// Log is a log that the exporter's goroutine writes as well.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
