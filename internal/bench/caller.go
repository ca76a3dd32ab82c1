// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// caller posts reports to a client's HTTP endpoint, one after the other, over a
// connection of its own. It is made of little, because it runs on the cores of
// what is measured.
type caller struct {
	address, namespace, prefix string
	token                      string
	filling                    string // random text, of which each alert has another part

	conn   net.Conn // nil until the first post and after the endpoint has ended it
	reader *bufio.Reader
	buf    []byte
	posts  []posted // the number of an alert is its place here
}

// posted is what became of one alert.
type posted struct {
	status int // HTTP status; 0: there was no answer
	took   time.Duration
}

const (
	alertBytes = 2 << 10
	// answerTimeout is above the 35 s after which the endpoint gives up a request.
	answerTimeout = 40 * time.Second
	fillingBytes  = 64 << 10
)

func newCaller(address, namespace, token string, number int) *caller {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789/-._"
	random := rand.New(rand.NewPCG(uint64(number), 0))
	filling := make([]byte, fillingBytes)
	for i := range filling {
		filling[i] = letters[random.IntN(len(letters))]
	}
	return &caller{address: address, namespace: namespace, token: token, prefix: "alert-" + strconv.Itoa(number) + "-", filling: string(filling)}
}

// name is that of an alert, which no other one has.
func (c *caller) name(number int) string { return c.prefix + strconv.Itoa(number) }

// alert is the body of an alert.
func (c *caller) alert(number int) []byte {
	head := fmt.Appendf(nil, `{"apiVersion":"kubescape.io/v1","kind":"RuntimeAlerts","metadata":{"name":%q,"namespace":%q},`+
		`"spec":{"alertName":"Unexpected process launched","severity":5,"pid":%d,"evidence":"`, c.name(number), c.namespace, 1000+number)
	const tail = `"}}`
	n := alertBytes - len(head) - len(tail)
	from := number * 97 % (len(c.filling) - n)
	return append(append(head, c.filling[from:from+n]...), tail...)
}

// post posts the next alert and notes what became of it. It fails only if there
// is no endpoint, or when ctx ends.
func (c *caller) post(ctx context.Context) error {
	body := c.alert(len(c.posts))
	c.buf = request(c.buf[:0], "runtimealerts", c.token, len(body))
	c.buf = append(c.buf, body...)
	if c.conn == nil {
		conn, err := dial(ctx, c.address)
		if err != nil {
			return err
		}
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	start := time.Now()
	status, last, err := c.exchange(c.buf)
	c.posts = append(c.posts, posted{status, time.Since(start)})
	if err != nil || last {
		c.hangUp()
	}
	return ctx.Err()
}

// exchange sends a request and reads the answer; last says that the endpoint ends
// the connection.
func (c *caller) exchange(request []byte) (status int, last bool, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return 0, true, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return 0, true, err
	}
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, true, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Close, err
}

func (c *caller) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// request is the head of a request with a body of n bytes.
func request(buf []byte, resource, token string, n int) []byte {
	return fmt.Appendf(buf, "POST /apis/v1/kubescape.io/v1/%s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", resource, token, n)
}

// dialed is a connection that ends with a context.
type dialed struct {
	net.Conn
	stop func() bool
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the HTTP endpoint: %w", err)
	}
	return &dialed{Conn: conn, stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
}

func (d *dialed) Close() error {
	d.stop()
	return d.Conn.Close()
}

// Half of an upload is what a caller sends that then stalls.
const (
	uploadBytes  = 4 << 20
	stalledBytes = uploadBytes / 2
)

// stall begins the upload of a report of 4 MiB, of another kind than alerts, and
// says no more after half of it.
func stall(ctx context.Context, address, token string) (net.Conn, error) {
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	upload := request(nil, "networkstreams", token, uploadBytes)
	upload = append(upload, `{"apiVersion":"kubescape.io/v1","kind":"NetworkStreams","metadata":{"name":"stalled"},"spec":"`...)
	for len(upload) < stalledBytes {
		upload = append(upload, 'x')
	}
	if err = conn.SetDeadline(time.Now().Add(answerTimeout)); err == nil {
		_, err = conn.Write(upload)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("beginning an upload: %w", err)
	}
	return conn, nil
}
