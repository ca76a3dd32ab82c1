// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// watcher logs when a broker cannot be reached, and when it can again: once each,
// not once per try.
type watcher struct {
	logger *slog.Logger
	mu     sync.Mutex
	away   map[string]bool
}

var _ kgo.HookBrokerConnect = (*watcher)(nil)

func newWatcher(logger *slog.Logger) *watcher {
	return &watcher{logger: logger, away: map[string]bool{}}
}

// OnBrokerConnect is called by the client after each try to connect.
func (w *watcher) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	address := net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port)))
	w.mu.Lock()
	was := w.away[address]
	w.away[address] = err != nil
	w.mu.Unlock()
	switch {
	case err != nil && !was:
		w.logger.Warn("Kafka broker cannot be reached; trying again", "broker", address, "error", err)
	case err == nil && was:
		w.logger.Info("Kafka broker can be reached again", "broker", address)
	}
}
