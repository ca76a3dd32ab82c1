// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

var (
	accountToQuery = map[string]string{"X-API-ACCOUNT": "customerGUID"}
	keyToHeader    = map[string]string{"X-API-KEY": "X-API-KEY"}
)

const shown = "s3cr3t-key"

// asking is an AuthenticationServer whose questions handler answers.
func asking(t *testing.T, path string, handler http.HandlerFunc) *AuthenticationServer {
	t.Helper()
	server := httptest.NewServer(handler)
	a := askingAt(t, server.URL+path, accountToQuery, keyToHeader)
	t.Cleanup(server.Close)
	t.Cleanup(a.Close)
	return a
}

func askingAt(t *testing.T, address string, toQuery, toHeader map[string]string) *AuthenticationServer {
	t.Helper()
	a, err := NewAuthenticationServer(address, toQuery, toHeader)
	require.NoError(t, err)
	return a
}

func claimWithHeaders(account string) Claim {
	c := claimOf(account, "c", shown)
	c.Header = http.Header{"X-Api-Key": {shown}, "X-Api-Account": {account}, "X-Api-Cluster": {"c"}}
	return c
}

// TestAuthenticationServerAsks as servers in the field do; recorded there.
func TestAuthenticationServerAsks(t *testing.T) {
	var got *http.Request
	a := asking(t, "/auth?fixed=1", func(_ http.ResponseWriter, r *http.Request) { got = r })
	require.NoError(t, a.Authenticate(t.Context(), claimWithHeaders("22222222")))
	require.Equal(t, http.MethodGet, got.Method)
	require.Equal(t, "/auth?customerGUID=22222222&fixed=1", got.URL.String())
	got.Header.Del("Accept-Encoding")
	got.Header.Del("User-Agent")
	require.Equal(t, http.Header{"X-Api-Key": {shown}}, got.Header, "nothing that is not mapped is passed on")

	both := askingAt(t, "http://"+got.Host+"/?", map[string]string{"x-api-key": "key", "X-Absent": "absent"}, map[string]string{"x-api-cluster": "x-cluster"})
	require.NoError(t, both.Authenticate(t.Context(), claimWithHeaders("22222222")))
	require.Equal(t, "/?key="+shown, got.URL.String())
	require.Equal(t, "c", got.Header.Get("X-Cluster"))
	require.Empty(t, got.Header.Get("X-Api-Key"))
	both.Close()
}

func TestAuthenticationServerAnswers(t *testing.T) {
	for _, status := range []int{200, 201, 204, 301, 304, 400, 401, 403, 404, 429, 500, 502, 503} {
		a := asking(t, "/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		err := a.Authenticate(t.Context(), claimWithHeaders("a"))
		if status == 200 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, synchronizer.ErrUnauthorized, "%d", status)
		require.ErrorContains(t, err, fmt.Sprint("answered HTTP ", status))
	}
	a := asking(t, "/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) })
	require.ErrorContains(t, a.Authenticate(t.Context(), claimWithHeaders("REPLACE_ME_ACCOUNT")), "answered HTTP 403: the account is a placeholder")
}

// TestAuthenticationServerIsAway: nobody is let in and nobody is refused for good.
func TestAuthenticationServerIsAway(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		a := askingAt(t, "http://user:pass@"+listener.Addr().String(), map[string]string{"X-API-KEY": "key"}, nil)
		err = a.Authenticate(t.Context(), claimWithHeaders("a"))
		require.ErrorContains(t, err, "asking the authentication server "+listener.Addr().String())
		require.NotErrorIs(t, err, synchronizer.ErrUnauthorized)
		require.NotContains(t, err.Error(), shown)
		require.NotContains(t, err.Error(), "pass")
	})
	t.Run("no answer in time", func(t *testing.T) {
		hold := make(chan struct{})
		a := asking(t, "/", func(http.ResponseWriter, *http.Request) { <-hold })
		defer close(hold)
		require.Equal(t, 5*time.Second, a.timeout)
		a.timeout = 50 * time.Millisecond
		err := a.Authenticate(t.Context(), claimWithHeaders("a"))
		require.ErrorContains(t, err, "asking the authentication server")
		require.NotErrorIs(t, err, synchronizer.ErrUnauthorized)
	})
	t.Run("too many wait", func(t *testing.T) {
		a := asking(t, "/", func(http.ResponseWriter, *http.Request) {})
		a.timeout, a.turns = 10*time.Millisecond, make(chan struct{}) // nobody ever has a turn
		err := a.Authenticate(t.Context(), claimWithHeaders("a"))
		require.ErrorContains(t, err, "wait for an answer")
		require.NotErrorIs(t, err, synchronizer.ErrUnauthorized)
	})
}

// TestAuthenticationServerRedirects: what a client shows goes to one server only.
func TestAuthenticationServerRedirects(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	away := asking(t, "/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/?k="+shown, http.StatusFound)
	})
	err := away.Authenticate(t.Context(), claimWithHeaders("a"))
	require.ErrorIs(t, err, synchronizer.ErrUnauthorized)
	require.ErrorContains(t, err, "redirects to "+other.URL+", which is not followed")
	require.NotContains(t, err.Error(), shown)
	require.Zero(t, elsewhere.Load())

	home := asking(t, "/from", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/from" {
			http.Redirect(w, r, "/to", http.StatusFound)
		} else if r.Header.Get("X-Api-Key") != shown {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	require.NoError(t, home.Authenticate(t.Context(), claimWithHeaders("a")))

	round := asking(t, "/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	require.ErrorIs(t, round.Authenticate(t.Context(), claimWithHeaders("a")), synchronizer.ErrUnauthorized)
}

// TestAuthenticationServerIsSpared: few connections, which are used again also
// after long answers, and few questions at a time.
func TestAuthenticationServerIsSpared(t *testing.T) {
	const most, clients = 4, 60
	var opened, now, peak atomic.Int32
	arrived := make(chan struct{}, clients)
	release := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		peak.Store(max(peak.Load(), now.Add(1)))
		defer now.Add(-1)
		arrived <- struct{}{}
		<-release
		_, _ = w.Write([]byte(strings.Repeat("x", answerBytes-1)))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	a := askingAt(t, server.URL, accountToQuery, keyToHeader)
	defer a.Close()
	require.Equal(t, 64, cap(a.turns))
	a.turns, a.timeout = make(chan struct{}, most), limit
	var all sync.WaitGroup
	errs := make(chan error, clients)
	for range clients {
		all.Go(func() { errs <- a.Authenticate(t.Context(), claimWithHeaders("a")) })
	}
	for range most {
		<-arrived
	}
	close(release)
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, peak.Load(), int32(most))
	require.LessOrEqual(t, opened.Load(), int32(2*most), "a dial that lost against a connection that came back may be one too many")
}

// TestAuthenticationServerEndlessAnswer: the status decides, and the rest is left.
func TestAuthenticationServerEndlessAnswer(t *testing.T) {
	const most = 64 << 20 // what buffers on the way may hold, and more
	written := make(chan int, 1)
	a := asking(t, "/", func(w http.ResponseWriter, _ *http.Request) {
		total := 0
		for total < most {
			n, err := w.Write(make([]byte, 64<<10))
			total += n
			if err != nil {
				break
			}
		}
		written <- total
	})
	a.timeout = limit
	require.NoError(t, a.Authenticate(t.Context(), claimWithHeaders("a")))
	require.Less(t, <-written, most)
}

// TestAuthenticationServerEchoes: whoever answers there by mistake may repeat what it
// was asked; that does not come into an error, and so not into the log.
func TestAuthenticationServerEchoes(t *testing.T) {
	for name, answer := range map[string]func(asked string) string{
		"the request":    func(asked string) string { return asked },
		"a bad status":   func(asked string) string { return "HTTP/1.1 " + strings.Fields(asked)[1] + " x\r\n\r\n" },
		"a bad header":   func(string) string { return "HTTP/1.1 200 OK\r\n" + odd + "\r\n\r\n" },
		"a bad redirect": func(string) string { return "HTTP/1.1 302 Found\r\nLocation: http://[" + odd + "\r\n\r\n" },
		"a bad redirect, as %": func(string) string {
			return "HTTP/1.1 302 Found\r\nLocation: http://[" + url.QueryEscape(odd) + "\r\n\r\n"
		},
		"a bad length":   func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + odd + "\r\n\r\n" },
		"a bad encoding": func(string) string { return "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + odd + "\r\n\r\n" },
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer listener.Close()
			go func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						buf := make([]byte, 4096)
						if n, err := c.Read(buf); err == nil {
							_, _ = c.Write([]byte(answer(string(buf[:n]))))
						}
					}()
				}
			}()
			a := askingAt(t, "http://"+listener.Addr().String()+"/check", map[string]string{"X-API-KEY": "key", "X-API-ACCOUNT": "account"}, keyToHeader)
			defer a.Close()
			claim := claimWithHeaders("acme")
			claim.AccessKey = odd
			claim.Header.Set("X-Api-Key", odd)
			err = a.Authenticate(t.Context(), claim)
			require.ErrorContains(t, err, "asking the authentication server "+listener.Addr().String())
			require.NotErrorIs(t, err, synchronizer.ErrUnauthorized, "nobody has decided")
			require.NotContains(t, err.Error(), "s3cr3t")

			f := NewFeatures(a, "flag", time.Hour, slog.New(slog.DiscardHandler))
			h := &holder{features: f}
			h.url, h.header = f.question(claim)
			_, err = h.fetch(t.Context())
			require.ErrorContains(t, err, "asking the authentication server "+listener.Addr().String())
			require.NotContains(t, err.Error(), "s3cr3t")
		})
	}
}

// TestAuthenticationServerThroughAProxy that refuses, or cannot be read: it is named, and
// never its password, and nothing goes past it.
func TestAuthenticationServerThroughAProxy(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"} {
		t.Setenv(name, "")
	}
	var connects atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect && r.Host == "auth.example:443" {
			connects.Add(1)
		}
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	defer proxy.Close()
	address := strings.TrimPrefix(proxy.URL, "http://")
	a := askingAt(t, "https://auth.example/check", accountToQuery, keyToHeader)
	defer a.Close()
	t.Setenv("ALL_PROXY", "http://user:p4ssword@"+address)
	err := a.Authenticate(t.Context(), claimWithHeaders("acme"))
	require.ErrorContains(t, err, "the proxy "+address+" answered HTTP 407")
	require.NotErrorIs(t, err, synchronizer.ErrUnauthorized)
	require.NotContains(t, err.Error(), "p4ss")
	require.EqualValues(t, 1, connects.Load())
	t.Setenv("HTTPS_PROXY", "http://user:p4ss#word@"+address)
	err = a.Authenticate(t.Context(), claimWithHeaders("acme"))
	require.ErrorContains(t, err, "HTTPS_PROXY cannot be read")
	require.NotErrorIs(t, err, synchronizer.ErrUnauthorized)
	require.NotContains(t, err.Error(), "p4ss")
}

// odd is a key with signs that stand otherwise in a URL.
const odd = `s3cr3t "k&y+%/=`

func TestAuthenticationServerURL(t *testing.T) {
	for _, bad := range []string{"", "auth.example.com", "ftp://h", "https://", "https://h/%zz"} {
		_, err := NewAuthenticationServer(bad, nil, nil)
		require.ErrorIs(t, err, synchronizer.ErrInvalid, bad)
	}
}

// TestHandshakeByAuthenticationServer: 200 is in, another answer 401, none 503.
func TestHandshakeByAuthenticationServer(t *testing.T) {
	var status atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	a := askingAt(t, server.URL, accountToQuery, keyToHeader)
	defer a.Close()
	f := newFixture(t, Options{Authenticator: a}, nil)
	status.Store(200)
	response, _ := f.upgrade(nil)
	require.Equal(t, 101, response.StatusCode)
	first := f.record()
	require.Equal(t, "ServerConnected", first.Property("event"))
	status.Store(403)
	response, body := f.upgrade(nil)
	require.Equal(t, 401, response.StatusCode)
	require.Contains(t, body, "HTTP 403")
	server.Close()
	response, body = f.upgrade(nil)
	require.Equal(t, 503, response.StatusCode)
	require.Equal(t, "5", response.Header.Get("Retry-After"))
	require.NotContains(t, body, "127.0.0.1", "what is inside stays in the log")
	require.Contains(t, f.log.String(), "asking the authentication server")
	require.NotContains(t, f.log.String(), "key=")
}
