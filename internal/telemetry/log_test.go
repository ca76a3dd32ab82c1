// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
)

// TestLevels: which lines each value of KS_LOGGER_LEVEL lets through.
func TestLevels(t *testing.T) {
	for value, want := range map[string]string{
		"debug": "diwe", "DEBUG": "diwe", "": "iwe", "info": "iwe", "success": "iwe", "warning": "we", "warn": "we", "error": "e", "fatal": "e",
	} {
		var out bytes.Buffer
		log := NewLogger(&out, value, "")
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		log.Error("e")
		got := ""
		for line := range strings.Lines(out.String()) {
			_, text, _ := strings.Cut(line, "msg=")
			got += strings.TrimSpace(text)
		}
		require.Equal(t, want, got, value)
	}
}

// TestForms: what each value of KS_LOGGER_NAME makes of a line.
func TestForms(t *testing.T) {
	for value, isJSON := range map[string]bool{"json": true, "zap": true, "ZAP": true, "": false, "pretty": false, "colorful": false} {
		var out bytes.Buffer
		NewLogger(&out, "info", value).With("account", "a").WithGroup("g").Info("hello world", "n", 1)
		var line struct {
			Time, Level, Msg, Account string
			G                         struct{ N int }
		}
		err := json.Unmarshal(out.Bytes(), &line)
		require.Equal(t, isJSON, err == nil, value)
		if isJSON {
			require.NotEmpty(t, line.Time)
			require.Equal(t, []any{"INFO", "hello world", "a", 1}, []any{line.Level, line.Msg, line.Account, line.G.N})
		} else {
			require.Contains(t, out.String(), `level=INFO msg="hello world" account=a g.n=1`, value)
		}
	}
}

// TestLinesAreBounded: names and errors that others have made up are cut, whatever the
// form, and what is around them stays.
func TestLinesAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	for _, form := range []string{"", "json"} {
		var out bytes.Buffer
		log := NewLogger(&out, "info", form)
		log.With("account", long).WithGroup("g").Warn("client refused", "cluster", long, "reason", errors.New(long), "last", "end")
		require.Less(t, out.Len(), 5*longestField, form)
		require.Contains(t, out.String(), "ä…", form)
		require.Contains(t, out.String(), "end", form)
		require.True(t, utf8.Valid(out.Bytes()), form)
		out.Reset()
		NewDrops(prometheus.NewRegistry(), log).Drop(synchronizer.DropTooLarge, traceparent.Named(long, oneTrace))
		require.Less(t, out.Len(), 2*longestField, form)
		require.Contains(t, out.String(), "4bf92f3577b34da6a3ce929d0e0e4736", form)
	}
	var out bytes.Buffer
	NewLogger(&out, "info", "").Error("panic", "stack", long[:longestStack/2], "error", nil)
	require.Greater(t, out.Len(), longestStack/2, "what helps to find a fault of ours is whole")
}

// TestFloodOfOneWarning: whoever makes it, such as somebody without a key, does not
// fill the disk; other lines and lines of work are not concerned.
func TestFloodOfOneWarning(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, "info", "")
	now := time.Unix(0, 0)
	log.Handler().(calm).flood.now = func() time.Time { return now }
	for i := range 10 * floodLines {
		log.With("n", i).Warn("client refused", "cluster", i)
		log.Info("connected")
	}
	require.Equal(t, floodLines, strings.Count(out.String(), "client refused"))
	require.Equal(t, 10*floodLines, strings.Count(out.String(), "connected"))
	log.WithGroup("g").Error("another")
	require.Contains(t, out.String(), "msg=another")
	now = now.Add(floodLength)
	out.Reset()
	log.Warn("client refused")
	require.Contains(t, out.String(), "notLogged="+strconv.Itoa(9*floodLines))
	for i := range 3 * mostTexts {
		log.Warn("text " + strconv.Itoa(i))
	}
	require.LessOrEqual(t, len(log.Handler().(calm).flood.texts), mostTexts)
}

const oneTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestTraceInLines: a line about a message in a trace names it, and no other does.
func TestTraceInLines(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, "info", "").With("account", "a")
	log.InfoContext(traceparent.NewContext(t.Context(), oneTrace), "one")
	require.Contains(t, out.String(), " account=a traceId=4bf92f3577b34da6a3ce929d0e0e4736\n")
	out.Reset()
	log.InfoContext(t.Context(), "one")
	log.Info("two")
	log.LogAttrs(traceparent.NewContext(t.Context(), "no traceparent"), slog.LevelInfo, "three")
	require.NotContains(t, out.String(), "traceId")
}

// TestTraceOfADrop is a field of its own.
func TestTraceOfADrop(t *testing.T) {
	var out bytes.Buffer
	d := NewDrops(prometheus.NewRegistry(), NewLogger(&out, "info", ""))
	d.Drop(synchronizer.DropTooLarge, traceparent.Named("/v1/pods a/b", oneTrace)+": 7 bytes")
	require.Contains(t, out.String(), `what="/v1/pods a/b: 7 bytes" traceId=4bf92f3577b34da6a3ce929d0e0e4736`)
	out.Reset()
	d.Drop(synchronizer.DropTooLarge, "/v1/pods a/b")
	require.NotContains(t, out.String(), "traceId")
}
