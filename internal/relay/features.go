// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// featuresPath is where the authentication server tells features, behind its URL.
	featuresPath = "api/v1/features"
	// featuresTimeout bounds one question.
	featuresTimeout = 10 * time.Second
	// featuresRetry is how long after a failure it is asked again at the latest.
	featuresRetry = time.Minute
	// featureAskers is how many questions are under way at a time; more wait.
	featureAskers = 16
	// featuresBytes bounds an answer.
	featuresBytes = 1 << 20
)

// Features knows which accounts have a feature, as the authentication server tells
// it. It asks while an account has a connection: at its first, and again when an
// answer has become too old; what it knows it forgets with the account's last
// connection. An account about which it has no answer has the feature. A nil
// Features asks nobody, and all accounts have it.
type Features struct {
	server  *AuthenticationServer
	flag    string
	refresh time.Duration
	logger  *slog.Logger

	mu       sync.Mutex
	accounts map[string]*account
	due      []*account // about which somebody has to ask now
	asking   int        // goroutines
	working  sync.WaitGroup
	failing  bool // the last question was not answered
}

// account is one that is connected; the fields but lacks are guarded by Features.mu.
type account struct {
	name    string
	lacks   atomic.Bool // it is known not to have the feature
	holders []*holder   // of open connections, the newest last; none: it is forgotten
	timer   *time.Timer // of the next question
	ctx     context.Context
	end     context.CancelFunc // of the question that is under way
}

// holder is a connection of an account, and how to ask with its key.
type holder struct {
	features *Features
	account  *account
	url      string // may hold the key
	header   http.Header
}

// NewFeatures asks server for the feature of the given name, and again after each
// refresh interval.
func NewFeatures(server *AuthenticationServer, flag string, refresh time.Duration, logger *slog.Logger) *Features {
	return &Features{server: server, flag: flag, refresh: refresh, logger: logger, accounts: map[string]*account{}}
}

// connect tells of a new connection; leave must be called when it has ended.
func (f *Features) connect(claim Claim) *holder {
	if f == nil {
		return nil
	}
	h := &holder{features: f}
	h.url, h.header = f.question(claim)
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.accounts[claim.Account]
	if a == nil {
		a = &account{name: claim.Account}
		a.ctx, a.end = context.WithCancel(context.Background())
		f.accounts[claim.Account] = a
		f.ask(a)
	}
	h.account = a
	a.holders = append(a.holders, h)
	return h
}

// question is the URL for a client and its headers: the client's key and account,
// and what is passed on of it when it is authenticated.
func (f *Features) question(claim Claim) (string, http.Header) {
	header := http.Header{}
	for from, to := range f.server.toHeader {
		if text := claim.Header.Get(from); text != "" {
			header.Set(to, text)
		}
	}
	header.Set("X-API-KEY", claim.AccessKey)
	header.Set("X-API-ACCOUNT", claim.Account)
	header.Set("Accept", "application/json")
	u, err := url.Parse(f.server.question(claim.Header))
	if err != nil {
		return "", header // asking will fail; err repeats the key
	}
	return u.JoinPath(featuresPath).String(), header
}

// Has says whether the account of the connection has the feature, as far as is known.
func (h *holder) Has() bool { return h == nil || !h.account.lacks.Load() }

// leave tells that the connection has ended.
func (h *holder) leave() {
	if h == nil {
		return
	}
	f, a := h.features, h.account
	f.mu.Lock()
	defer f.mu.Unlock()
	a.holders = slices.DeleteFunc(a.holders, func(other *holder) bool { return other == h })
	if len(a.holders) > 0 {
		return
	}
	a.end()
	if a.timer != nil {
		a.timer.Stop()
	}
	delete(f.accounts, a.name)
}

// wait returns when nobody asks any more; all connections have ended before.
func (f *Features) wait() {
	if f != nil {
		f.working.Wait()
	}
}

// ask has somebody ask about an account; f.mu is held.
func (f *Features) ask(a *account) {
	f.due = append(f.due, a)
	if f.asking < featureAskers {
		f.asking++
		f.working.Go(f.work)
	}
}

// work asks about accounts until none is due.
func (f *Features) work() {
	for {
		f.mu.Lock()
		if len(f.due) == 0 {
			f.due = nil
			f.asking--
			f.mu.Unlock()
			return
		}
		a := f.due[0]
		f.due[0] = nil
		f.due = f.due[1:]
		var newest *holder
		if n := len(a.holders); n > 0 {
			newest = a.holders[n-1]
		}
		f.mu.Unlock()
		if newest != nil {
			has, err := newest.fetch(a.ctx)
			f.learn(a, has, err)
		}
	}
}

// learn keeps an answer, or that there was none.
func (f *Features) learn(a *account, has bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(a.holders) == 0 {
		return
	}
	next := f.refresh
	switch {
	case err != nil:
		next = min(next, featuresRetry)
		if !f.failing { // one line for an outage, not one for each account
			f.logger.Warn("asking for the features of accounts: runtime alerts pass until there is an answer", "account", a.name, "error", err)
		}
	case f.failing:
		f.logger.Info("features of accounts are told again")
	}
	f.failing = err != nil
	lacks := err == nil && !has
	if a.lacks.Swap(lacks) != lacks {
		f.logger.Info("runtime alerts of an account", "account", a.name, "carried", !lacks, "feature", f.flag)
	}
	a.timer = time.AfterFunc(next, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(a.holders) > 0 {
			f.ask(a)
		}
	})
}

// fetch asks once. Its errors hold nothing of the client.
func (h *holder) fetch(ctx context.Context) (has bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, featuresTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, http.NoBody)
	if err != nil || h.url == "" {
		return false, errors.New("the URL of the authentication server cannot be used")
	}
	r.Header = h.header.Clone()
	server := h.features.server
	answer, err := server.client.Do(r)
	if err != nil {
		return false, fmt.Errorf("asking the authentication server %s: %w", server.url.Host, withoutAnswer(err))
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, featuresBytes+1))
	switch {
	case answer.StatusCode != http.StatusOK:
		return false, fmt.Errorf("the authentication server %s answered HTTP %d", server.url.Host, answer.StatusCode)
	case err != nil:
		return false, fmt.Errorf("reading the answer of the authentication server %s: %w", server.url.Host, err)
	case len(body) > featuresBytes:
		return false, fmt.Errorf("the answer of the authentication server %s is larger than %d bytes", server.url.Host, featuresBytes)
	}
	names, ok := readFeatures(body)
	if !ok {
		return false, fmt.Errorf(`the authentication server %s did not answer {"features":["…"]}`, server.url.Host)
	}
	return slices.Contains(names, h.features.flag), nil
}

// readFeatures reads an answer. null is an empty list, which some encoders write so;
// an answer without the member is none, as nothing is not JSON.
func readFeatures(body []byte) (names []string, ok bool) {
	var answer struct {
		Features json.RawMessage `json:"features"`
	}
	ok = json.Unmarshal(body, &answer) == nil && json.Unmarshal(answer.Features, &names) == nil
	return names, ok
}
