// SPDX-License-Identifier: Apache-2.0

// Package fleetclient is a client of link v1 that costs next to nothing, so that
// one process can be ten thousand of them: a TCP connection, the upgrade request
// of the field and WebSocket frames, written and read by hand. What a frame means
// is left to the caller, and so is every bad habit that a test needs.
package fleetclient

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"synchronizer"
)

// Dialer makes connections to one server.
type Dialer struct {
	Address   string // host:port of the server, without TLS
	AccessKey string
	// From is the address that connections come from; nil leaves it to the system. A
	// machine has some 28,000 ports to one server for each address.
	From net.IP
	// ReadBuffer bounds what the kernel holds for a client that does not read, in
	// bytes; 0: its default. One that is smaller than a segment (64 KiB on loopback)
	// makes the kernel drop acknowledgements with what has no room, and the connection
	// stands still, both ways.
	ReadBuffer int
}

const (
	upgradeTimeout = 60 * time.Second // a server may have thousands to let in first
	readerBytes    = 512
	mostHeader     = 16 << 10
	mostFrame      = 64 << 20
)

// RefusedError is the answer of a server that does not let a client in.
type RefusedError struct{ Status int }

// Error implements error.
func (e *RefusedError) Error() string { return fmt.Sprintf("the server answers HTTP %d", e.Status) }

// Conn is one connection. One goroutine may read while another one writes.
type Conn struct {
	tcp *net.TCPConn
	r   *bufio.Reader
}

// Dial connects and upgrades as the client of a cluster.
func (d *Dialer) Dial(ctx context.Context, id synchronizer.ClusterID, version string) (*Conn, error) {
	dialer := net.Dialer{Timeout: upgradeTimeout}
	if d.From != nil {
		dialer.LocalAddr = &net.TCPAddr{IP: d.From}
	}
	inner, err := dialer.DialContext(ctx, "tcp", d.Address)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	c := &Conn{tcp: inner.(*net.TCPConn), r: bufio.NewReaderSize(inner, readerBytes)}
	stop := context.AfterFunc(ctx, c.Reset)
	if d.ReadBuffer > 0 {
		err = c.tcp.SetReadBuffer(d.ReadBuffer)
	}
	if err == nil {
		err = c.upgrade(d, id, version)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Reset()
		return nil, fmt.Errorf("upgrading to a WebSocket: %w", err)
	}
	return c, nil
}

func (c *Conn) upgrade(d *Dialer, id synchronizer.ClusterID, version string) error {
	if err := c.tcp.SetDeadline(time.Now().Add(upgradeTimeout)); err != nil {
		return err
	}
	var nonce [16]byte
	binary.LittleEndian.PutUint64(nonce[:], rand.Uint64())
	request := "GET / HTTP/1.1\r\nHost: " + d.Address +
		"\r\nUser-Agent: Go-http-client/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
		base64.StdEncoding.EncodeToString(nonce[:]) +
		"\r\nX-API-KEY: " + d.AccessKey + "\r\nX-API-ACCOUNT: " + id.Account + "\r\nX-API-CLUSTER: " + id.Cluster +
		"\r\nX-HELM-VERSION: \r\nX-SYNCHRONIZER-VERSION: " + version + "\r\nX-GIT-VERSION: v1.34.1\r\nX-CLOUD-PROVIDER: \r\n\r\n"
	if _, err := io.WriteString(c.tcp, request); err != nil {
		return err
	}
	status, err := c.answer()
	if err != nil {
		return err
	}
	if status != http.StatusSwitchingProtocols {
		return &RefusedError{Status: status}
	}
	return c.tcp.SetDeadline(time.Time{})
}

// answer reads the head of the answer and gives its status.
func (c *Conn) answer() (status int, err error) {
	for size := 0; ; {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, fmt.Errorf("reading the answer: %w", err)
		}
		if size == 0 {
			if _, err := fmt.Sscanf(string(line), "HTTP/1.1 %d", &status); err != nil {
				return 0, fmt.Errorf("reading the answer: it begins with %q", line)
			}
		}
		if size += len(line); size > mostHeader {
			return 0, errors.New("reading the answer: its head does not end")
		}
		if strings.TrimSpace(string(line)) == "" {
			return status, nil
		}
	}
}

// Opcodes of RFC 6455.
const (
	opContinuation = 0x0
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
)

const (
	fin    = 0x80
	masked = 0x80
)

// AppendFrame appends a binary frame of a client to dst. Its mask is zero, which
// leaves the payload as it is.
func AppendFrame(dst, payload []byte) []byte { return appendFrame(dst, opBinary, payload) }

func appendFrame(dst []byte, opcode byte, payload []byte) []byte {
	dst = append(dst, fin|opcode)
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, masked|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, masked|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, masked|127), uint64(n))
	}
	return append(append(dst, 0, 0, 0, 0), payload...)
}

// Write writes frames that AppendFrame has made. It waits while the server does
// not read.
func (c *Conn) Write(frames []byte) error {
	_, err := c.tcp.Write(frames)
	return err
}

// SetWriteDeadline bounds Write.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.tcp.SetWriteDeadline(t) }

// ClosedError is the farewell of the server.
type ClosedError struct {
	Code   int
	Reason string
}

// Error implements error.
func (e *ClosedError) Error() string {
	return fmt.Sprintf("the server closes the WebSocket: %d %q", e.Code, e.Reason)
}

// Read gives the next message in buf, which grows when it must. A farewell of the
// server is a ClosedError.
func (c *Conn) Read(buf []byte) ([]byte, error) {
	buf = buf[:0]
	for {
		head, err := c.r.Peek(2)
		if err != nil {
			return buf, err
		}
		first, size := head[0], uint64(head[1]&^masked)
		_, _ = c.r.Discard(2) // they were peeked
		if size >= 126 {
			var long [8]byte
			bytes := long[6:]
			if size == 127 {
				bytes = long[:]
			}
			if _, err := io.ReadFull(c.r, bytes); err != nil {
				return buf, err
			}
			size = binary.BigEndian.Uint64(long[:])
		}
		if size > mostFrame {
			return buf, fmt.Errorf("a frame of %d bytes is above %d", size, mostFrame)
		}
		start := len(buf)
		if need := start + int(size); need > cap(buf) {
			buf = append(make([]byte, 0, max(need, 2*cap(buf))), buf...)
		}
		buf = buf[:start+int(size)]
		if _, err := io.ReadFull(c.r, buf[start:]); err != nil {
			return buf[:start], err
		}
		switch payload := buf[start:]; first &^ fin {
		case opBinary, opContinuation:
			if first&fin != 0 {
				return buf, nil
			}
		case opClose:
			closed := &ClosedError{Code: 1005}
			if len(payload) >= 2 {
				closed.Code, closed.Reason = int(binary.BigEndian.Uint16(payload)), string(payload[2:])
			}
			return buf[:start], closed
		case opPing:
			return buf[:start], errors.New("the server sends a ping of WebSocket, which peers in the field cannot take")
		default:
			return buf[:start], fmt.Errorf("the server sends a frame with opcode %d", first&^fin)
		}
	}
}

// Finish ends what the client says (FIN). Read goes on until the server has ended
// as well.
func (c *Conn) Finish() error { return c.tcp.CloseWrite() }

// Close ends the connection: with FIN, or with RST if something was not read.
func (c *Conn) Close() error { return c.tcp.Close() }

// Reset ends the connection with RST.
func (c *Conn) Reset() {
	_ = c.tcp.SetLinger(0) // it may be closed already
	_ = c.tcp.Close()
}

// Ping is the frame of a Ping of link v1; it must not be changed.
func Ping() []byte { return ping }

var ping = AppendFrame(nil, []byte(`{"Depth":0,"Event":7,"Kind":null,"MsgId":"00000000-0000-4000-8000-000000000000","AdditionalProperties":null}`))
