// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/queue"
)

// putOf is a PutObject frame about an object of a kind.
func putOf(group, resource, name, body string) string {
	return fmt.Sprintf(`{"Depth":1,"Event":6,"Kind":{"Group":%q,"Version":"v1","Resource":%q,"AdditionalProperties":null},"MsgId":"m","Name":%q,"Namespace":"demo","ResourceVersion":0,"Checksum":"","Object":%q,"AdditionalProperties":null}`,
		group, resource, name, body)
}

func alert(name string) string { return putOf("kubescape.io", "runtimealerts", name, "{}") }

// TestSkipAlertsFrom: those of the account and no others, also in a batch, whatever
// is said about them; what passes is numbered without a gap.
func TestSkipAlertsFrom(t *testing.T) {
	f := newFixture(t, Options{SkipAlertsFrom: []string{"skipped", "more"}}, nil)
	c := f.connect("skipped", "c")
	item := func(event int, resource, name string) string {
		return strings.Replace(putOf("kubescape.io", resource, name, "{}"), `"Event":6`, fmt.Sprint(`"Event":`, event), 1)
	}
	for _, event := range []int{0, 2, 5, 6} { // NewChecksum, ObjectDeleted, PatchObject, PutObject
		c.send(strings.Replace(item(event, "runtimealerts", "a"), `"Object"`, map[bool]string{true: `"Patch"`, false: `"Object"`}[event == 5], 1))
	}
	c.send(putOf("kubescape.io", "networkstreams", "s", "{}"))
	c.send(`{"Depth":1,"Event":8,"Kind":{"Group":"kubescape.io","Version":"v1","Resource":"runtimealerts","AdditionalProperties":null},"MsgId":"batch","BatchType":"","Items":{"PutObject":[` +
		item(6, "runtimealerts", "b") + `,` + item(6, "networkstreams", "t") + `]},"AdditionalProperties":null}`)
	for i, name := range []string{"s", "t"} {
		r := f.object()
		require.Equal(t, name, r.Property("name"))
		require.Equal(t, strconv.Itoa(i+1), r.Property(queue.PropertySeq))
	}
	f.drops.Require(t,
		"alerts_skipped: VerifyObject skipped/c kubescape.io/v1/runtimealerts demo/a",
		"alerts_skipped: DeleteObject skipped/c kubescape.io/v1/runtimealerts demo/a",
		"alerts_skipped: PatchObject skipped/c kubescape.io/v1/runtimealerts demo/a",
		"alerts_skipped: PutObject skipped/c kubescape.io/v1/runtimealerts demo/a",
		"alerts_skipped: PutObject skipped/c kubescape.io/v1/runtimealerts demo/b")
	for _, account := range []string{"another", "skipped2", "Skipped"} {
		f.connect(account, "c").send(alert("passes"))
		r := f.object()
		require.Equal(t, account, r.Property(queue.PropertyAccount))
	}
}

// TestFeatureGate over the whole way: an authentication server that lets in and tells
// features, and clients of accounts with and without.
func TestFeatureGate(t *testing.T) {
	auth := asking(t, "/check", func(w http.ResponseWriter, r *http.Request) {
		switch account := r.URL.Query().Get("customerGUID"); {
		case r.URL.Path == "/check":
		case r.Header.Get("X-API-KEY") != "key" || r.Header.Get("X-API-ACCOUNT") != account:
			w.WriteHeader(http.StatusForbidden)
		case account == "with":
			_, _ = io.WriteString(w, `{"features":["alerts"]}`)
		case account == "without":
			_, _ = io.WriteString(w, `{"features":[]}`)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	f := newFixture(t, Options{
		Authenticator: auth, Features: NewFeatures(auth, "alerts", time.Hour, slog.New(slog.DiscardHandler)), SkipAlertsFrom: []string{"skipped"},
	}, nil)
	known := func(account string) func() bool {
		return func() bool {
			f.options.Features.mu.Lock()
			defer f.options.Features.mu.Unlock()
			a := f.options.Features.accounts[account]
			return a != nil && a.timer != nil
		}
	}
	for _, account := range []string{"with", "without", "unknown", "skipped"} {
		c := f.connect(account, "c")
		require.Eventually(t, known(account), limit, time.Millisecond)
		c.send(alert("alert"))
		c.send(putOf("", "configmaps", "other", "{}"))
		if account == "with" || account == "unknown" {
			r := f.object()
			require.Equal(t, account+" alert", r.Property(queue.PropertyAccount)+" "+r.Property("name"))
		}
		r := f.object()
		require.Equal(t, account+" other", r.Property(queue.PropertyAccount)+" "+r.Property("name"))
		require.NoError(t, c.ws.CloseNow())
		require.Eventually(t, func() bool { return !known(account)() }, limit, time.Millisecond, "it is forgotten")
	}
	f.drops.Require(t, "feature_missing: PutObject without/c kubescape.io/v1/runtimealerts demo/alert",
		"alerts_skipped: PutObject skipped/c kubescape.io/v1/runtimealerts demo/alert")
	require.NotContains(t, f.log.String(), "key=")
}

// TestMaxObjectSize: what is larger is dropped, counted and named, and nothing else.
func TestMaxObjectSize(t *testing.T) {
	f := newFixture(t, Options{MaxObjectSize: 1000, SkipAlertsFrom: []string{"a"}}, nil)
	c := f.connect("a", "c")
	c.send(putOf("", "configmaps", "fits", strings.Repeat("x", 1000)))
	c.send(putOf("", "configmaps", "large", strings.Repeat("x", 1001)))
	c.send(putOf("kubescape.io", "runtimealerts", "large-alert", strings.Repeat("x", 1001)))
	c.send(named("after"))
	for i, name := range []string{"fits", "after"} {
		r := f.object()
		require.Equal(t, name, r.Property("name"))
		require.Equal(t, strconv.Itoa(i+1), r.Property(queue.PropertySeq), "what was dropped leaves no gap")
	}
	f.drops.Require(t, "too_large: PutObject a/c /v1/configmaps demo/large: 1001 bytes are above MAX_OBJECT_SIZE",
		"too_large: PutObject a/c kubescape.io/v1/runtimealerts demo/large-alert: 1001 bytes are above MAX_OBJECT_SIZE")
}
