// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// TestB056 is case B056: a token for another audience is refused, also where the
// API server says that it is authentic.
func TestB056(t *testing.T) {
	answers := []struct {
		audiences string
		status    int
	}{
		{`["kubescape.io"]`, 202},
		{`[]`, 401},
		{`["https://kubernetes.default.svc"]`, 401},
		{`["x","kubescape.io"]`, 202},
	}
	authentic := func(audiences string) string {
		return `{"authenticated":true,"audiences":` + audiences + `,"user":{"username":"u"}}`
	}
	w := open(t, nil)
	for i, c := range answers {
		w.api.token = func(string) (string, error) { return authentic(c.audiences), nil }
		a := w.post(alertPath, fmt.Sprint("token-", i), report("RuntimeAlerts", "a"))
		require.Equal(t, c.status, a.status, c.audiences)
		_, access := w.api.reviews()
		require.Equal(t, c.status == 202, access > 0, "only 1 and 4 pass on to authorization")
		w.api.spec = nil
	}
	require.JSONEq(t, `{"token":"token-0","audiences":["kubescape.io"]}`, string(w.api.tokens[0]))
	w.api.token = func(string) (string, error) { return `{"authenticated":true,"user":{"username":"u"}}`, nil }
	require.Equal(t, 401, w.post(alertPath, "none", "").status, "no audiences at all")

	// KS_API_AUDIENCE=foo asks for foo, and only foo passes.
	w = open(t, func(o *Options, _ *limits) {
		o.Auth = ReadAuth(func(key string) string {
			return map[string]string{"KS_API_AUDIENCE": "foo", "POD_NAMESPACE": "kubescape"}[key]
		})
	})
	for i, c := range []struct {
		audiences string
		status    int
	}{{`["foo"]`, 202}, {`["kubescape.io"]`, 401}, {`[]`, 401}, {`["kubescape.io","foo"]`, 202}} {
		w.api.token = func(string) (string, error) { return authentic(c.audiences), nil }
		require.Equal(t, c.status, w.post(alertPath, fmt.Sprint("token-", i), report("RuntimeAlerts", "a")).status, c.audiences)
		require.JSONEq(t, fmt.Sprintf(`{"token":"token-%d","audiences":["foo"]}`, i), string(w.api.tokens[i]))
	}
}

// TestB027 is case B027: whoever's rights come from a group, or from a Role in
// our namespace, is let in, because the review says all that the token's said.
func TestB027(t *testing.T) {
	w := open(t, nil)
	w.api.token = func(token string) (string, error) {
		groups := `["system:serviceaccounts","system:serviceaccounts:falco"]`
		if token == "other" {
			groups = `["system:serviceaccounts"]`
		}
		return `{"authenticated":true,"audiences":["kubescape.io"],"user":{"username":"system:serviceaccount:falco:falco","uid":"u-7","groups":` + groups +
			`,"extra":{"authentication.kubernetes.io/pod-name":["falco-1"],"a/b":["1","2"]}}}`, nil
	}
	w.api.access = func(raw json.RawMessage) (string, error) {
		var spec struct{ Groups []string }
		require.NoError(t, json.Unmarshal(raw, &spec))
		return fmt.Sprintf(`{"allowed":%t}`, strings.Contains(strings.Join(spec.Groups, " "), "system:serviceaccounts:falco")), nil
	}
	require.Equal(t, 202, w.post(alertPath, "falco", report("RuntimeAlerts", "a")).status)
	require.JSONEq(t, `{
		"user":"system:serviceaccount:falco:falco","uid":"u-7","groups":["system:serviceaccounts","system:serviceaccounts:falco"],
		"extra":{"authentication.kubernetes.io/pod-name":["falco-1"],"a/b":["1","2"]},
		"resourceAttributes":{"namespace":"kubescape","verb":"create","group":"kubescape.io","resource":"runtimealerts"}}`, string(w.api.spec[0]))
	require.Equal(t, 403, w.post(alertPath, "other", report("RuntimeAlerts", "a")).status)
	require.Contains(t, w.log.String(), "caller=system:serviceaccount:falco:falco")
}

func TestDeniedWins(t *testing.T) {
	w := open(t, nil)
	w.api.access = func(json.RawMessage) (string, error) { return `{"allowed":true,"denied":true}`, nil }
	require.Equal(t, 403, w.post(alertPath, "good", "").status)
}

// TestUndecided: whatever is not a clear answer of the API server is 503, never
// open, and asked again the next time.
func TestUndecided(t *testing.T) {
	for name, fault := range map[string]func(*fakeAPI){
		"token review fails":     func(f *fakeAPI) { f.token = func(string) (string, error) { return "", errAPIServer } },
		"no status":              func(f *fakeAPI) { f.token = func(string) (string, error) { return "null", nil } },
		"status of another type": func(f *fakeAPI) { f.token = func(string) (string, error) { return `{"authenticated":"yes"}`, nil } },
		"not JSON":               func(f *fakeAPI) { f.token = func(string) (string, error) { return "<html>", nil } },
		"nobody": func(f *fakeAPI) {
			f.token = func(string) (string, error) { return `{"authenticated":true,"audiences":["kubescape.io"]}`, nil }
		},
		"access review fails":      func(f *fakeAPI) { f.access = func(json.RawMessage) (string, error) { return "", errAPIServer } },
		"access without a status":  func(f *fakeAPI) { f.access = func(json.RawMessage) (string, error) { return "7", nil } },
		"the review itself panics": func(f *fakeAPI) { f.access = func(json.RawMessage) (string, error) { panic("fault") } },
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, nil)
			fault(w.api)
			for i := range 2 {
				a := w.post(alertPath, "good", report("RuntimeAlerts", "a"))
				if strings.Contains(name, "panics") {
					require.Equal(t, 500, a.status)
				} else {
					require.Equal(t, 503, a.status)
				}
				require.True(t, a.close, "every refusal ends the connection")
				tokens, _ := w.api.reviews()
				require.Equal(t, i+1, tokens, "an error is not remembered")
			}
			require.Zero(t, w.outlet.entered.Load())
			w.api.token, w.api.access = nil, nil
			require.Equal(t, 202, w.post(alertPath, "good", report("RuntimeAlerts", "a")).status)
		})
	}
}

func TestTokensThatCannotBe(t *testing.T) {
	w := open(t, nil)
	for _, value := range []string{"", "Bearer", "Bearer ", "Basic good", "good", "Bearer a b", "Bearer ä", "Bearer " + strings.Repeat("a", maxTokenBytes+1)} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.address+alertPath, nil)
		require.NoError(t, err)
		r.Header["Authorization"] = []string{value}
		resp, err := w.client.Do(r)
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.Equal(t, 401, resp.StatusCode, value)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.address+alertPath, nil)
	require.NoError(t, err)
	r.Header["Authorization"] = []string{"Bearer good", "Bearer good"}
	resp, err := w.client.Do(r)
	require.NoError(t, err)
	_ = resp.Body.Close()
	require.Equal(t, 401, resp.StatusCode, "two headers")
	tokens, _ := w.api.reviews()
	require.Zero(t, tokens, "the API server was not asked")
	require.Equal(t, 202, w.post(alertPath, strings.Repeat("a", maxTokenBytes), report("RuntimeAlerts", "a")).status, "the longest one")
}

// TestDecisionsAreKept counts reviews as time passes.
func TestDecisionsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		e, err := New(Options{Resources: stock(), Outlet: &fakeOutlet{}, APIServer: api, Auth: Auth{Namespace: "n"}})
		require.NoError(t, err)
		decide := func(token, resource string, status, reviews int) {
			t.Helper()
			v, err := e.gate.decide(t.Context(), token, kubescape(resource))
			require.NoError(t, err)
			require.Equal(t, status, v.status)
			tokens, _ := api.reviews()
			require.Equal(t, reviews, tokens)
		}
		decide("a", alerts, 0, 1)
		time.Sleep(allowedFor - time.Nanosecond) // synctest: no time passes
		decide("a", alerts, 0, 1)
		decide("a", "networkstreams", 0, 2) // another resource is another question
		decide("b", alerts, 0, 3)
		time.Sleep(1 * time.Nanosecond) // synctest
		decide("a", alerts, 0, 4)
		// What was allowed is refused once it is asked again, and the other way round.
		api.access = func(json.RawMessage) (string, error) { return `{"allowed":false}`, nil }
		decide("a", alerts, 0, 4)
		time.Sleep(allowedFor) // synctest
		decide("a", alerts, 403, 5)
		api.access = nil
		decide("a", alerts, 403, 5)
		time.Sleep(refusedFor) // synctest
		decide("a", alerts, 0, 6)
		api.token = func(string) (string, error) { return `{"authenticated":false}`, nil }
		decide("c", alerts, 401, 7)
		decide("c", alerts, 401, 7)
		time.Sleep(refusedFor) // synctest
		decide("c", alerts, 401, 8)
	})
}

// TestKeptIsBounded floods the memory with tokens, and those that were refused
// push out none that are allowed.
func TestKeptIsBounded(t *testing.T) {
	m := newMemory(time.Now)
	put := func(token string, status int) {
		_, f, leader, ok := m.find(keyOf(token, kubescape(alerts)))
		require.True(t, leader)
		require.False(t, ok)
		m.settle(keyOf(token, kubescape(alerts)), f, verdict{status: status}, nil)
	}
	put("good", 0)
	for i := range 3 * maxKept {
		put(fmt.Sprint("bad-", i), 401)
	}
	require.Len(t, m.refused.entries, maxKept)
	_, _, _, ok := m.find(keyOf("good", kubescape(alerts)))
	require.True(t, ok)
	for i := range 3 * maxKept {
		put(fmt.Sprint("good-", i), 0)
	}
	require.Len(t, m.allowed.entries, maxKept)
	require.Empty(t, m.underway)
	_, _, _, ok = m.find(keyOf(fmt.Sprint("good-", 3*maxKept-1), kubescape(alerts)))
	require.True(t, ok)
}

// TestReviewsAtOnce: a flood of different tokens reaches the API server at most
// eight at once, and one token with one question at a time.
func TestReviewsAtOnce(t *testing.T) {
	w := open(t, nil)
	release := make(chan struct{})
	w.api.token = func(string) (string, error) {
		<-release
		return valid, nil
	}
	var group sync.WaitGroup
	var accepted atomic.Int64
	post := func(token string) {
		group.Go(func() {
			if a, err := w.try(http.MethodPost, alertPath, token, strings.NewReader(report("RuntimeAlerts", "a"))); err == nil && a.status < 500 {
				accepted.Add(1) // 202, or 429 if there are too many at once
			}
		})
	}
	for i := range 40 {
		post(fmt.Sprint("token-", i))
		post("same")
	}
	w.eventually("all wait", func() bool { return w.gate.waiting.Load() == 80 })
	require.Equal(t, int64(maxReviews), w.api.inside.Load())
	close(release)
	group.Wait()
	require.Equal(t, int64(80), accepted.Load())
	require.Equal(t, int64(maxReviews), w.api.highest.Load())
	tokens, _ := w.api.reviews()
	require.Equal(t, 41, tokens, "one review for all with the same token")
	require.Equal(t, 41.0, testutil.ToFloat64(w.metrics.reviews.WithLabelValues("allowed", "review")))
	require.Zero(t, w.gate.waiting.Load())
}

// TestTooManyWait: beyond the bound nobody waits.
func TestTooManyWait(t *testing.T) {
	w := open(t, nil)
	w.gate.waiting.Store(maxWaiting)
	require.Equal(t, 503, w.post(alertPath, "good", "").status)
	w.gate.waiting.Store(0)
	require.Equal(t, 202, w.post(alertPath, "good", report("RuntimeAlerts", "a")).status)
}

// TestReviewsEnd: a review that takes too long, and one that runs when the
// process stops, end with 503.
func TestReviewsEnd(t *testing.T) {
	w := open(t, nil)
	slow := &slowAPI{}
	w.gate.server = slow
	w.gate.timeout = 20 * time.Millisecond
	require.Equal(t, 503, w.post(alertPath, "good", "").status)
	w.gate.timeout = limit
	done := make(chan answer, 1)
	go func() {
		a, _ := w.try(http.MethodPost, alertPath, "good", nil)
		done <- a
	}()
	w.eventually("it is asked", func() bool { return slow.asked.Load() == 2 })
	require.NoError(t, w.stop())
	require.Equal(t, 503, (<-done).status)
}

func TestStartErrors(t *testing.T) {
	for _, c := range []struct {
		options Options
		fault   string
	}{
		{Options{APIServer: &fakeAPI{}}, "without an outlet"},
		{Options{Outlet: &fakeOutlet{}, Auth: Auth{Namespace: "n"}}, "without an API server"},
	} {
		_, err := New(c.options)
		require.ErrorContains(t, err, c.fault)
	}
	_, err := New(Options{Outlet: &fakeOutlet{}, APIServer: &fakeAPI{}, Auth: ReadAuth(func(string) string { return "" })})
	require.ErrorIs(t, err, ErrNoNamespace)
	for _, remedy := range []string{"POD_NAMESPACE", "metadata.namespace", "httpEndpoint", "KS_API_AUTH_DISABLED=true"} {
		require.ErrorContains(t, err, remedy)
	}
}

func TestReadAuth(t *testing.T) {
	read := func(values map[string]string) Auth { return ReadAuth(func(key string) string { return values[key] }) }
	require.Equal(t, Auth{Audience: "kubescape.io"}, read(nil))
	require.Equal(t, Auth{Audience: "foo", Namespace: "n"}, read(map[string]string{"KS_API_AUDIENCE": " foo ", "POD_NAMESPACE": "n\n"}))
	for value, want := range map[string]bool{"true": true, "TRUE": true, "1": true, "false": false, "yes": false, "": false, "tru": false} {
		require.Equal(t, want, read(map[string]string{"KS_API_AUTH_DISABLED": value}).Disabled, value)
	}
}

func TestAuthenticationOff(t *testing.T) {
	w := open(t, noAuth)
	require.Contains(t, w.log.String(), "level=WARN")
	require.Contains(t, w.log.String(), "KS_API_AUTH_DISABLED")
	require.Equal(t, 202, w.post(alertPath, "", report("RuntimeAlerts", "a")).status)
	tokens, _ := w.api.reviews()
	require.Zero(t, tokens)
}

func TestRefusalsAreNoFlood(t *testing.T) {
	log := &logBuffer{}
	l := refusals{log: slog.New(slog.NewTextHandler(log, nil))}
	now := time.Unix(0, 0)
	for range 100 {
		l.admit(401, now)
	}
	_, ok := l.admit(403, now)
	require.True(t, ok)
	more, ok := l.admit(401, now.Add(refusalPause))
	require.True(t, ok)
	require.Equal(t, 99, more)
	_, _ = lines{l.log}.Write([]byte("x"))
	_, _ = io.WriteString(log, "")
}
