// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	liblog "github.com/apache/pulsar-client-go/pulsar/log"
)

// bridge takes the library's log: warnings and errors go on as warnings, because
// it repairs most of them by itself; the rest does not.
type bridge struct {
	slog.Handler
	ended *atomic.Bool // nothing goes on any more
}

// libraryLog is a log for one client; the library may write to it for some seconds
// after that was closed.
func libraryLog(logger *slog.Logger, ended *atomic.Bool) liblog.Logger {
	return liblog.NewLoggerWithSlog(slog.New(bridge{logger.Handler(), ended}))
}

// Enabled implements slog.Handler.
func (b bridge) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && !b.ended.Load() && b.Handler.Enabled(ctx, slog.LevelWarn)
}

// Handle implements slog.Handler.
func (b bridge) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasSuffix(r.Message, "all filtered") { // a reader began within a batch
		return nil
	}
	r = r.Clone()
	r.Level, r.Message = slog.LevelWarn, "queue: "+r.Message
	return b.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (b bridge) WithAttrs(attrs []slog.Attr) slog.Handler {
	return bridge{b.Handler.WithAttrs(attrs), b.ended}
}

// WithGroup implements slog.Handler.
func (b bridge) WithGroup(name string) slog.Handler {
	return bridge{b.Handler.WithGroup(name), b.ended}
}
