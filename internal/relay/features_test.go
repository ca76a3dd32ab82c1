// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
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

	"github.com/stretchr/testify/require"
)

const (
	flag    = "alerts"
	refresh = time.Hour
)

// teller answers questions for features without a network.
type teller struct {
	mu     sync.Mutex
	status int
	body   string
	fails  error
	waits  bool // until the question is given up
	asked  []*http.Request
	now    atomic.Int64 // questions that wait
	most   int64
}

func (t *teller) tell(body string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status, t.body, t.fails, t.waits = http.StatusOK, body, nil, false
}

func (t *teller) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fails, t.waits = err, err == nil
}

func (t *teller) questions() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.asked)
}

func (t *teller) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	t.asked = append(t.asked, r)
	t.most = max(t.most, t.now.Add(1))
	defer t.now.Add(-1)
	status, body, fails, waits := t.status, t.body, t.fails, t.waits
	t.mu.Unlock()
	if waits {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if fails != nil {
		return nil, fails
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// newFeatures has a server that is never reached: teller answers.
func newFeatures(t *testing.T, log io.Writer) (*Features, *teller) {
	t.Helper()
	told := &teller{status: http.StatusOK}
	a := askingAt(t, "https://auth.example.com/check?fixed=1", accountToQuery, keyToHeader)
	a.client.Transport = told
	return NewFeatures(a, flag, refresh, slog.New(slog.NewTextHandler(log, nil))), told
}

// TestFeaturesQuestion has the client's key and account, and what is passed on of
// the client anyway.
func TestFeaturesQuestion(t *testing.T) {
	questions := make(chan *http.Request, 1)
	a := asking(t, "/check?fixed=1", func(w http.ResponseWriter, r *http.Request) {
		questions <- r
		_, _ = io.WriteString(w, `{"features":[]}`)
	})
	f := NewFeatures(a, flag, refresh, slog.New(slog.DiscardHandler))
	h := f.connect(claimWithHeaders("22222222"))
	got := <-questions
	require.Equal(t, http.MethodGet, got.Method)
	require.Equal(t, "/check/api/v1/features?customerGUID=22222222&fixed=1", got.URL.String())
	require.Equal(t, shown, got.Header.Get("X-API-KEY"))
	require.Equal(t, "22222222", got.Header.Get("X-API-ACCOUNT"))
	require.Empty(t, got.Header.Get("X-API-CLUSTER"), "nothing else is passed on")
	require.Eventually(t, func() bool { return !h.Has() }, limit, time.Millisecond)
	h.leave()
	f.wait()

	root := askingAt(t, "https://auth.example.com", nil, nil)
	url, header := NewFeatures(root, flag, refresh, slog.New(slog.DiscardHandler)).question(claimWithHeaders("a"))
	require.Equal(t, "https://auth.example.com/api/v1/features", url)
	require.Equal(t, http.Header{"X-Api-Key": {shown}, "X-Api-Account": {"a"}, "Accept": {"application/json"}}, header)
}

// TestFeaturesAnswers: only an answer that lists features without the one drops alerts.
func TestFeaturesAnswers(t *testing.T) {
	for _, test := range []struct {
		body   string
		status int
		has    bool
		failed string
	}{
		{`{"features":["other","alerts"]}`, 200, true, ""},
		{`{"more":1,"features":["alerts"]}`, 200, true, ""},
		{`{"features":["other"]}`, 200, false, ""},
		{`{"features":["ALERTS","alerts2"]}`, 200, false, ""},
		{`{"features":[]}`, 200, false, ""},
		{`{"features":null}`, 200, false, ""},
		{`{}`, 200, true, "did not answer"},
		{`{"features":"alerts"}`, 200, true, "did not answer"},
		{`{"features":[1]}`, 200, true, "did not answer"},
		{`["alerts"]`, 200, true, "did not answer"},
		{`{"features":["other"]`, 200, true, "did not answer"},
		{``, 200, true, "did not answer"},
		{`{"features":["other"],"x":"` + strings.Repeat("x", featuresBytes) + `"}`, 200, true, "larger than"},
		{`{"features":["other"]}`, 204, true, "answered HTTP 204"},
		{`{"features":["other"]}`, 302, true, "answered HTTP 302"},
		{`{"features":["other"]}`, 401, true, "answered HTTP 401"},
		{`{"features":["other"]}`, 500, true, "answered HTTP 500"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log logs
			f, told := newFeatures(t, &log)
			told.tell(test.body)
			told.status = test.status
			h := f.connect(claimWithHeaders("a"))
			synctest.Wait()
			require.Equal(t, test.has, h.Has(), "%d %.60s", test.status, test.body)
			require.Equal(t, 1, told.questions())
			if test.failed != "" {
				require.Contains(t, log.String(), test.failed)
				require.Contains(t, log.String(), "auth.example.com")
			} else {
				require.NotContains(t, log.String(), "level=WARN")
			}
			require.NotContains(t, log.String(), shown)
			h.leave()
			f.wait()
		})
	}
}

// TestFeaturesLive from the first connection of an account to its last.
func TestFeaturesLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logs
		f, told := newFeatures(t, &log)
		told.fail(nil)
		first := f.connect(claimWithHeaders("a"))
		synctest.Wait()
		require.True(t, first.Has(), "it is not known yet")
		pass(featuresTimeout)
		require.True(t, first.Has(), "there was no answer within 10 s")
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"))
		require.Contains(t, log.String(), "deadline exceeded")

		told.tell(`{"features":["other"]}`)
		pass(featuresRetry - 1)
		require.Equal(t, 1, told.questions())
		pass(1)
		require.Equal(t, 2, told.questions())
		require.False(t, first.Has())
		require.Contains(t, log.String(), "features of accounts are told again")

		// Another connection of the account is no new question.
		second := f.connect(claimWithHeaders("a"))
		other := f.connect(claimWithHeaders("b"))
		synctest.Wait()
		require.Equal(t, 3, told.questions())
		require.False(t, second.Has())
		require.False(t, other.Has())

		// An answer is used until the next one is there.
		told.tell(`{"features":["alerts"]}`)
		pass(refresh - 1)
		require.Equal(t, 3, told.questions())
		require.False(t, first.Has())
		pass(1)
		require.Equal(t, 5, told.questions())
		require.True(t, first.Has() && second.Has() && other.Has())
		told.tell(`{"features":[]}`)
		pass(refresh)
		require.False(t, first.Has() || second.Has() || other.Has())

		// Without an answer nothing is dropped, and it is asked again soon.
		told.fail(errors.New("connection refused"))
		pass(refresh)
		require.True(t, first.Has() && second.Has() && other.Has())
		require.Equal(t, 2, strings.Count(log.String(), "level=WARN"), "one line for an outage")
		pass(10 * featuresRetry)
		require.Equal(t, 2, strings.Count(log.String(), "level=WARN"))
		told.tell(`{"features":[]}`)
		pass(featuresRetry)
		require.False(t, first.Has() || second.Has() || other.Has())

		// The last connection takes what is known with it.
		first.leave()
		asked := told.questions()
		pass(refresh)
		require.Equal(t, asked+2, told.questions(), "somebody of each account is connected")
		second.leave()
		other.leave()
		pass(10 * refresh)
		require.Equal(t, asked+2, told.questions())
		require.Empty(t, f.accounts)
		told.fail(nil)
		again := f.connect(claimWithHeaders("a"))
		synctest.Wait()
		require.True(t, again.Has())
		require.Equal(t, asked+3, told.questions())
		again.leave() // gives the question up
		synctest.Wait()
		require.Zero(t, told.now.Load())
		pass(10 * refresh)
		require.Equal(t, asked+3, told.questions())
		require.Equal(t, 2, strings.Count(log.String(), "level=WARN"), "that is no failure")
		require.NotContains(t, log.String(), shown)
		f.wait()
	})
}

// TestFeaturesAskWithALivingKey: what a connection has shown is not used when it is gone.
func TestFeaturesAskWithALivingKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, told := newFeatures(t, io.Discard)
		told.tell(`{"features":[]}`)
		connect := func(key string) *holder {
			claim := claimWithHeaders("a")
			claim.AccessKey, claim.Header = key, http.Header{"X-Api-Key": {key}}
			h := f.connect(claim)
			synctest.Wait()
			return h
		}
		one, two, three := connect("one"), connect("two"), connect("three")
		for _, step := range []struct {
			leaves *holder
			key    string
		}{{nil, "three"}, {three, "two"}, {one, "two"}} {
			step.leaves.leave()
			pass(refresh)
			require.Equal(t, step.key, told.asked[len(told.asked)-1].Header.Get("X-API-KEY"))
		}
		two.leave()
		f.wait()
	})
}

// TestFeaturesOfManyAccounts are asked for a few at a time, and all of them.
func TestFeaturesOfManyAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, told := newFeatures(t, io.Discard)
		told.fail(nil)
		var all []*holder
		for i := range 10 * featureAskers {
			all = append(all, f.connect(claimWithHeaders(fmt.Sprint("account-", i))))
		}
		synctest.Wait()
		require.EqualValues(t, featureAskers, told.now.Load())
		told.tell(`{"features":[]}`)
		pass(featuresTimeout + featuresRetry)
		require.EqualValues(t, featureAskers, told.most)
		for _, h := range all {
			require.False(t, h.Has())
			h.leave()
		}
		require.Empty(t, f.accounts)
		require.Zero(t, f.asking)
		f.wait()
	})
}

// TestNoFeatures is no gate.
func TestNoFeatures(t *testing.T) {
	var f *Features
	h := f.connect(Claim{})
	require.True(t, h.Has())
	h.leave()
	f.wait()
}

// TestFeaturesAreNotFetchedElsewhere: the key does not follow a redirect.
func TestFeaturesAreNotFetchedElsewhere(t *testing.T) {
	var elsewhere atomic.Int64
	thief := asking(t, "/", func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	a := asking(t, "/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.url.String(), http.StatusTemporaryRedirect)
	})
	var log logs
	f := NewFeatures(a, flag, refresh, slog.New(slog.NewTextHandler(&log, nil)))
	h := f.connect(claimWithHeaders("a"))
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "answered HTTP 307") }, limit, time.Millisecond)
	require.True(t, h.Has())
	require.Zero(t, elsewhere.Load())
	h.leave()
	f.wait()
	for _, address := range []string{"http://127.0.0.1:1", "http://auth.invalid"} {
		away := askingAt(t, address, map[string]string{"X-API-KEY": "key"}, nil)
		h := &holder{features: NewFeatures(away, flag, refresh, slog.New(slog.DiscardHandler))}
		h.url, h.header = h.features.question(claimWithHeaders("a"))
		require.Contains(t, h.url, shown)
		_, err := h.fetch(context.WithoutCancel(t.Context()))
		require.Error(t, err)
		require.NotContains(t, err.Error(), shown)
		away.Close()
	}
}
