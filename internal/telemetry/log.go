// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"synchronizer/internal/telemetry/traceparent"
)

// logLevels are the values of KS_LOGGER_LEVEL; those of the field map to the
// four of slog.
var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "success": slog.LevelInfo, "": slog.LevelInfo,
	"warning": slog.LevelWarn, "warn": slog.LevelWarn, "error": slog.LevelError, "fatal": slog.LevelError,
}

// NewLogger makes the process's logger. Level and name are the values of
// KS_LOGGER_LEVEL and KS_LOGGER_NAME: "json" (or "zap", as the field calls its
// JSON logger) writes JSON lines, everything else text. An unknown level is
// reported and read as info. Fields are bounded, and so are lines of one warning or
// error.
func NewLogger(w io.Writer, level, name string) *slog.Logger {
	lvl, known := logLevels[strings.ToLower(level)]
	opts := &slog.HandlerOptions{Level: lvl, ReplaceAttr: bound}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if n := strings.ToLower(name); n == "json" || n == "zap" {
		h = slog.NewJSONHandler(w, opts)
	}
	log := slog.New(calm{traced{h}, &flood{now: time.Now, texts: map[string]*window{}}})
	if !known {
		log.Warn(fmt.Sprintf("KS_LOGGER_LEVEL %q is not known: using info", level))
	}
	return log
}

// traced names the trace of a message in the lines that are about it: those written
// with a context of traceparent.NewContext.
type traced struct{ slog.Handler }

// Handle implements slog.Handler.
func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if id := traceparent.TraceID(traceparent.FromContext(ctx)); id != "" {
		r.AddAttrs(slog.String(traceparent.LogKey, id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }
