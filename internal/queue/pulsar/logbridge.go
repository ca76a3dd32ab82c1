// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"log/slog"

	liblog "github.com/apache/pulsar-client-go/pulsar/log"
)

// bridge takes the library's log: warnings and errors go on as warnings, because
// it repairs most of them by itself; the rest does not.
type bridge struct{ slog.Handler }

func libraryLog(logger *slog.Logger) liblog.Logger {
	return liblog.NewLoggerWithSlog(slog.New(bridge{logger.Handler()}))
}

// Enabled implements slog.Handler.
func (b bridge) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && b.Handler.Enabled(ctx, slog.LevelWarn)
}

// Handle implements slog.Handler.
func (b bridge) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	r.Level, r.Message = slog.LevelWarn, "queue: "+r.Message
	return b.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (b bridge) WithAttrs(attrs []slog.Attr) slog.Handler { return bridge{b.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (b bridge) WithGroup(name string) slog.Handler { return bridge{b.Handler.WithGroup(name)} }
