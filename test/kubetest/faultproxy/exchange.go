// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	chunkBytes = 32 << 10
	// lineBytes bounds an event of a watch; etcd's limit of an object is 1.5 MiB.
	lineBytes  = 32 << 20
	drainLimit = time.Second
	calmTicks  = 20 // milliseconds, on a machine that is not busy
)

// exchange is one request and its answer. Its goroutine owns it.
type exchange struct {
	proxy      *Proxy
	w          http.ResponseWriter
	r          *http.Request
	target     target
	connection *connection
	id         int

	strikes chan *Armed // from Strike
	active  []*running
	passed  int // events or bytes
}

// running is a fault at work on this request.
type running struct {
	*Armed
	plan
	from int // value of passed when it came
	done bool
}

func (e *exchange) begin(a *Armed) {
	if a != nil {
		e.active = append(e.active, &running{Armed: a, plan: a.fault.plan(), from: e.passed})
	}
}

// serve answers the request.
func (e *exchange) serve() {
	for _, f := range e.active {
		if f.answer != nil {
			e.proxy.struck(f.Armed, e, "")
			e.finish(f.answer(e))
			return
		}
	}
	response, err := e.ask()
	if err != nil {
		if e.r.Context().Err() == nil {
			// As the client would see an API server that is not there.
			e.connection.reset()
		}
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = response.Body.Close() }()
	header := e.w.Header()
	for name, values := range response.Header {
		header[name] = values
	}
	dropHopByHop(header)
	if len(e.active) > 0 {
		header.Del("Content-Length")
	}
	e.start(response.StatusCode)
	switch {
	case response.StatusCode != http.StatusOK || e.target.verb != "watch":
		e.finish(e.copy(response.Body))
	default:
		e.finish(e.watch(response.Body))
	}
}

// ask sends the request on to the API server.
func (e *exchange) ask() (*http.Response, error) {
	request := e.r.Clone(e.r.Context())
	target := *e.proxy.base
	target.Path = strings.TrimSuffix(target.Path, "/") + e.r.URL.Path
	target.RawPath, target.RawQuery = "", e.r.URL.RawQuery
	request.URL, request.Host, request.RequestURI = &target, "", ""
	dropHopByHop(request.Header)
	transport := e.proxy.plain
	if request.Header.Get("Authorization") == "Bearer "+e.proxy.token {
		request.Header.Del("Authorization")
		transport = e.proxy.trusted
	}
	if e.r.ContentLength == 0 {
		request.Body = nil
	}
	if len(e.active) > 0 {
		// A fault shall spoil JSON and not the compression around it.
		request.Header.Del("Accept-Encoding")
	}
	if e.target.verb == "watch" {
		onlyJSON(request.Header)
	}
	return transport.RoundTrip(request)
}

// onlyJSON takes from Accept the forms in which events are not lines.
func onlyJSON(header http.Header) {
	var kept []string
	for _, form := range strings.Split(header.Get("Accept"), ",") {
		if !strings.Contains(form, "protobuf") && !strings.Contains(form, "cbor") && strings.TrimSpace(form) != "" {
			kept = append(kept, form)
		}
	}
	if len(kept) == 0 {
		kept = []string{"application/json"}
	}
	header.Set("Accept", strings.Join(kept, ","))
}

func dropHopByHop(header http.Header) {
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		header.Del(name)
	}
}

// start sends the header.
func (e *exchange) start(status int) {
	e.proxy.answered(e.id, status)
	e.w.WriteHeader(status)
	if len(e.active) > 0 || e.target.verb == "watch" {
		e.flush()
	}
}

// send writes p, as slowly as a fault wants it.
func (e *exchange) send(p []byte) {
	for _, f := range e.active {
		if f.slow == nil {
			continue
		}
		if !f.done {
			f.done = true
			e.proxy.struck(f.Armed, e, "")
		}
		for len(p) > f.slow.Bytes && e.pause(f.slow.Pause) {
			e.write(p[:f.slow.Bytes])
			p = p[f.slow.Bytes:]
		}
		e.pause(f.slow.Pause)
		break
	}
	e.write(p)
}

func (e *exchange) write(p []byte) {
	_, _ = e.w.Write(p)
	e.proxy.sent(e.id, len(p))
	if len(e.active) > 0 || e.target.verb == "watch" {
		e.flush()
	}
}

func (e *exchange) flush() { _ = http.NewResponseController(e.w).Flush() }

func (e *exchange) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.r.Context().Done():
		return false
	}
}

// drain waits until what was sent is in the network: HTTP/2 writes out behind
// Flush on its own time, so until the connection has been calm for a while.
func (e *exchange) drain() {
	limit, seen, calm := time.Now().Add(drainLimit), e.connection.writes.Load(), 0
	for calm < calmTicks && time.Now().Before(limit) && e.pause(time.Millisecond) {
		if writes := e.connection.writes.Load(); writes != seen {
			seen, calm = writes, 0
		}
		calm++
	}
}

// finish ends the request as o says.
func (e *exchange) finish(o outcome) {
	switch o {
	case hang:
		<-e.r.Context().Done()
		panic(http.ErrAbortHandler)
	case abort:
		panic(http.ErrAbortHandler)
	}
}

// due strikes with every fault whose moment has come.
func (e *exchange) due() outcome {
	for _, f := range e.active {
		if f.strike == nil || f.done || e.passed-f.from < f.after {
			continue
		}
		f.done = true
		e.proxy.struck(f.Armed, e, "")
		if o := f.strike(e); o != goOn {
			return o
		}
	}
	return goOn
}

// room is how many bytes may pass until the next strike.
func (e *exchange) room() int {
	room := chunkBytes
	for _, f := range e.active {
		if f.strike != nil && !f.done {
			room = min(room, f.after-(e.passed-f.from))
		}
	}
	return room
}

// copy passes an answer on that is not a watch.
func (e *exchange) copy(body io.Reader) outcome {
	buffer := make([]byte, chunkBytes)
	for {
		if o := e.due(); o != goOn {
			return o
		}
		n, err := body.Read(buffer[:max(1, e.room())])
		if n > 0 {
			e.send(buffer[:n])
			e.passed += n
		}
		if errors.Is(err, io.EOF) {
			return end
		}
		if err != nil {
			return abort
		}
	}
}

// watch passes the lines of a watch on.
func (e *exchange) watch(body io.Reader) outcome {
	e.proxy.register(e)
	defer e.proxy.unregister(e)
	ctx, cancel := context.WithCancel(e.r.Context())
	defer cancel()
	lines, failed := make(chan []byte), make(chan error, 1)
	go func() {
		defer close(lines)
		failed <- readLines(ctx, body, lines)
	}()
	for {
		if o := e.due(); o != goOn {
			return o
		}
		select {
		case line, ok := <-lines:
			switch {
			case ok && e.keeps(line):
				e.send(line)
				e.passed++
				e.proxy.told(e.id)
			case !ok && <-failed != nil:
				return abort
			case !ok:
				return end
			}
		case a := <-e.strikes:
			e.begin(a)
		case <-ctx.Done():
			return abort
		}
	}
}

// keeps tells whether line may pass.
func (e *exchange) keeps(line []byte) bool {
	said := readEvent(line)
	return !slices.ContainsFunc(e.active, func(f *running) bool {
		return f.drops != nil && e.proxy.dropped(f, e, said)
	})
}

func readLines(ctx context.Context, body io.Reader, lines chan<- []byte) error {
	scanner := bufio.NewScanner(body)
	scanner.Buffer(make([]byte, 0, 4<<10), lineBytes)
	for scanner.Scan() {
		line := append(append(make([]byte, 0, len(scanner.Bytes())+1), scanner.Bytes()...), '\n')
		select {
		case lines <- line:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return scanner.Err()
}
