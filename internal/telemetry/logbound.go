// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"
)

// What others say, such as names of objects and clusters, stands in lines; without
// bounds one of them could fill the disk that the log is on.
const (
	longestField = 2 << 10
	longestStack = 64 << 10 // of a panic, which is ours

	floodLength = 10 * time.Second
	floodLines  = 300  // of one text within floodLength
	mostTexts   = 1000 // texts that are counted apart

	notLogged = "notLogged" // field that says how many lines were left out
)

// bound is a slog.HandlerOptions.ReplaceAttr that cuts what is too long.
func bound(_ []string, a slog.Attr) slog.Attr {
	most := longestField
	if a.Key == "stack" {
		most = longestStack
	}
	switch v := a.Value; v.Kind() {
	case slog.KindString:
		if len(v.String()) > most {
			a.Value = slog.StringValue(cut(v.String(), most))
		}
	case slog.KindAny:
		if err, ok := v.Any().(error); ok && err != nil {
			if text := err.Error(); len(text) > most {
				a.Value = slog.StringValue(cut(text, most))
			}
		}
	}
	return a
}

// cut keeps the beginning of a text.
func cut(text string, most int) string {
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// flood is what a handler and those made of it know of warnings and errors that are
// repeated.
type flood struct {
	now func() time.Time

	mu    sync.Mutex
	texts map[string]*window
}

// window is the budget of lines of one text.
type window struct {
	since           time.Time
	logged, skipped int
}

// admit reports whether a line may be written now, and how many were not since the
// last one.
func (f *flood) admit(text string) (skipped int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.texts[text]
	if w == nil {
		if len(f.texts) >= mostTexts {
			clear(f.texts)
		}
		w = &window{}
		f.texts[text] = w
	}
	return w.admit(f.now(), floodLength, floodLines)
}

// admit is that of one text or reason: lines are written within length, and no more.
func (w *window) admit(now time.Time, length time.Duration, lines int) (skipped int, ok bool) {
	if now.Sub(w.since) >= length {
		skipped = w.skipped
		*w = window{since: now}
	}
	if w.logged >= lines {
		w.skipped++
		return 0, false
	}
	w.logged++
	return skipped, true
}

// calm writes of a flood of one warning or error the first lines only, and says in
// the next one how many it has left out. Lines below a warning are few by themselves.
type calm struct {
	slog.Handler
	flood *flood
}

// Handle implements slog.Handler.
func (h calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		skipped, ok := h.flood.admit(r.Message)
		if !ok {
			return nil
		}
		if skipped > 0 {
			r.AddAttrs(slog.Int(notLogged, skipped))
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h calm) WithAttrs(attrs []slog.Attr) slog.Handler {
	return calm{h.Handler.WithAttrs(attrs), h.flood}
}

// WithGroup implements slog.Handler.
func (h calm) WithGroup(name string) slog.Handler { return calm{h.Handler.WithGroup(name), h.flood} }
