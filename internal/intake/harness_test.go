// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"synchronizer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	limit = time.Minute
	tick  = time.Millisecond

	alertPath  = "/apis/v1/kubescape.io/v1/runtimealerts"
	streamPath = "/apis/v1/kubescape.io/v1/networkstreams"
)

// stock are the kinds of the field's chart.
func stock() []Resource {
	var list []Resource
	for _, name := range []string{"networkstreams", "nodeprofiles", "runtimealerts", "registrystatuses", "aisandboxheartbeats"} {
		list = append(list, Resource{Kind: kubescape(name)})
	}
	return list
}

func kubescape(resource string) synchronizer.Kind {
	return synchronizer.Kind{Group: "kubescape.io", Version: "v1", Resource: resource}
}

// report is a valid body of the kind.
func report(kind, name string) string {
	return `{"apiVersion":"kubescape.io/v1","kind":"` + kind + `","metadata":{"name":"` + name + `","namespace":"kubescape"},"spec":{"x":1.0}}`
}

// fakeOutlet is the outbound worker.
type fakeOutlet struct {
	away   atomic.Bool
	panics atomic.Bool
	// hold makes reports wait for their context.
	hold atomic.Bool
	fail atomic.Pointer[error]

	entered, left   atomic.Int64
	inside, highest atomic.Int64
	others, highOth atomic.Int64

	mu  sync.Mutex
	got []synchronizer.Message
}

func (o *fakeOutlet) Connected() bool { return !o.away.Load() }

func (o *fakeOutlet) Report(ctx context.Context, msg synchronizer.Message) error {
	o.entered.Add(1)
	defer o.left.Add(1)
	raise(&o.highest, o.inside.Add(1))
	defer o.inside.Add(-1)
	if msg.Kind.Resource != alerts {
		raise(&o.highOth, o.others.Add(1))
		defer o.others.Add(-1)
	}
	if o.panics.Load() {
		panic("the outlet is broken")
	}
	if o.hold.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := o.fail.Load(); err != nil {
		return *err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, msg)
	return nil
}

func (o *fakeOutlet) messages() []synchronizer.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.got
}

func raise(highest *atomic.Int64, n int64) {
	for old := highest.Load(); n > old && !highest.CompareAndSwap(old, n); old = highest.Load() {
	}
}

// fakeAPI answers reviews as it is told, and keeps what it was asked.
type fakeAPI struct {
	token  func(token string) (string, error) // status of a TokenReview
	access func(spec json.RawMessage) (string, error)

	inside, highest atomic.Int64
	mu              sync.Mutex
	tokens, spec    []json.RawMessage
}

const valid = `{"authenticated":true,"audiences":["kubescape.io"],"user":{"username":"system:serviceaccount:kubescape:node-agent","uid":"u-1","groups":["system:serviceaccounts"]}}`

func (f *fakeAPI) Post(_ context.Context, path string, body []byte) ([]byte, error) {
	raise(&f.highest, f.inside.Add(1))
	defer f.inside.Add(-1)
	var review struct {
		Kind string
		Spec json.RawMessage
	}
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, err
	}
	status, err := `{"allowed":true}`, error(nil)
	f.mu.Lock()
	switch path + " " + review.Kind {
	case tokenReviews + " TokenReview":
		f.tokens = append(f.tokens, review.Spec)
		f.mu.Unlock()
		status = valid
		var spec struct{ Token string }
		if err := json.Unmarshal(review.Spec, &spec); err != nil {
			return nil, err
		}
		if f.token != nil {
			status, err = f.token(spec.Token)
		}
	case accessReviews + " SubjectAccessReview":
		f.spec = append(f.spec, review.Spec)
		f.mu.Unlock()
		if f.access != nil {
			status, err = f.access(review.Spec)
		}
	default:
		f.mu.Unlock()
		return nil, fmt.Errorf("unexpected review %s at %s", review.Kind, path)
	}
	return []byte(`{"status":` + status + `}`), err
}

// reviews is how many token and access reviews were made.
func (f *fakeAPI) reviews() (tokens, access int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tokens), len(f.spec)
}

// world is an endpoint that serves on a port.
type world struct {
	*Endpoint
	t       *testing.T
	outlet  *fakeOutlet
	api     *fakeAPI
	client  *http.Client
	address string
	log     *logBuffer
	read    *atomic.Int64 // bytes that the endpoint has read of all connections
	stop    func() error
}

type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// open serves with authentication by a fake API server; change may alter it.
func open(t *testing.T, change func(*Options, *limits)) *world {
	t.Helper()
	w := &world{t: t, outlet: &fakeOutlet{}, api: &fakeAPI{}, log: &logBuffer{}, read: &atomic.Int64{}}
	options := Options{
		Resources: stock(), Outlet: w.outlet, APIServer: w.api, Auth: Auth{Namespace: "kubescape"},
		Logger:     slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: prometheus.NewPedanticRegistry(),
	}
	smaller := defaultLimits()
	if change != nil {
		change(&options, &smaller)
	}
	endpoint, err := New(options)
	require.NoError(t, err)
	endpoint.limits = smaller
	w.Endpoint = endpoint
	l, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	w.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- endpoint.Serve(ctx, countingListener{l, w.read}) }()
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 300}
	w.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, w.stop())
	})
	return w
}

// noAuth turns authentication off.
func noAuth(o *Options, _ *limits) { o.Auth.Disabled = true }

type countingListener struct {
	net.Listener
	read *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{c.(*net.TCPConn), l.read}, nil
}

type countingConn struct {
	*net.TCPConn
	read *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	close  bool
	text   string
}

func (w *world) do(method, path, token string, body io.Reader) answer {
	w.t.Helper()
	a, err := w.try(method, path, token, body)
	require.NoError(w.t, err)
	return a
}

func (w *world) try(method, path, token string, body io.Reader) (answer, error) {
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.address+path, body)
	if err != nil {
		return answer{}, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, resp.Close, string(text)}, err
}

func (w *world) post(path, token, body string) answer {
	w.t.Helper()
	return w.do(http.MethodPost, path, token, strings.NewReader(body))
}

// dial opens a connection and writes text on it.
func (w *world) dial(text string) net.Conn {
	w.t.Helper()
	c, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", w.address)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	_, err = io.WriteString(c, text)
	require.NoError(w.t, err)
	return c
}

// head is the head of a POST with one header line more.
func head(path, line string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n" + line + "\r\n\r\n"
}

// response reads the answer on a connection.
func response(t *testing.T, c net.Conn) *http.Response {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(limit)))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	_ = r.Body.Close()
	return r
}

// eventually waits for a condition.
func (w *world) eventually(what string, done func() bool) {
	w.t.Helper()
	require.Eventually(w.t, done, limit, tick, what)
}

// empty waits until all slots are free.
func (w *world) empty() {
	w.t.Helper()
	w.eventually("all slots are free", func() bool {
		total, others := w.admission.inside()
		return total == 0 && others == 0
	})
}

// capacity measures how many of n slow requests for path are let in.
func (w *world) capacity(path string, n int) int {
	w.t.Helper()
	before, _ := w.admission.inside()
	admitted := 0
	for range n {
		c := w.dial(head(path, "Content-Length: 1000") + "{")
		refused := make(chan bool, 1)
		go func() {
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err == nil {
				_ = r.Body.Close()
			}
			refused <- err == nil && r.StatusCode == http.StatusTooManyRequests
		}()
		var is bool
		w.eventually("let in or refused", func() bool {
			select {
			case is = <-refused:
				return true
			default:
				total, _ := w.admission.inside()
				return total == before+admitted+1
			}
		})
		if !is {
			admitted++
		}
	}
	return admitted
}

var errAPIServer = errors.New("the API server is away")

// slowAPI answers never.
type slowAPI struct{ asked atomic.Int64 }

func (s *slowAPI) Post(ctx context.Context, _ string, _ []byte) ([]byte, error) {
	s.asked.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}
