// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Opcodes of RFC 6455.
const (
	opContinuation = 0x0
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// rawPeer is a WebSocket peer of a few lines that forgives nothing.
type rawPeer struct {
	t       *testing.T
	conn    net.Conn
	reader  *bufio.Reader
	client  bool // masks what it writes, and wants nothing masked
	writing sync.Mutex
}

const upgradeRequest = "GET / HTTP/1.1\r\nHost: x\r\n" + ws + identity + "X-API-KEY: key\r\n%s\r\n"

// rawClient connects to a server of ours. What is early is written together with the
// request, as no client in the field does, but a proxy may.
func rawClient(t *testing.T, server *httptest.Server, headers string, early []byte) *rawPeer {
	t.Helper()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // it may have ended
	_, err = c.Write(append(fmt.Appendf(nil, upgradeRequest, headers), early...))
	require.NoError(t, err)
	p := &rawPeer{t: t, conn: c, reader: bufio.NewReader(c), client: true}
	answer, err := http.ReadResponse(p.reader, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	return p
}

// rawServer accepts one client of ours.
func rawServer(t *testing.T) (url string, accept func() *rawPeer) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	peers := make(chan *rawPeer, 1)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		p := &rawPeer{t: t, conn: c, reader: bufio.NewReader(c)}
		if r, err := http.ReadRequest(p.reader); err == nil {
			sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
			_, _ = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
				base64.StdEncoding.EncodeToString(sum[:]))
		}
		peers <- p
	}()
	return "ws://" + listener.Addr().String(), func() *rawPeer {
		p := <-peers
		t.Cleanup(func() { _ = p.conn.Close() })
		return p
	}
}

// frame is one whole frame as this peer would write it.
func (p *rawPeer) frame(opcode byte, payload []byte) []byte {
	frame := []byte{0x80 | opcode}
	var masked byte
	if p.client {
		masked = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, masked|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, masked|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, masked|127), uint64(n))
	}
	if !p.client {
		return append(frame, payload...)
	}
	mask := [4]byte{1, 2, 3, 4}
	frame = append(frame, mask[:]...)
	for i, b := range payload {
		frame = append(frame, b^mask[i%4])
	}
	return frame
}

func (p *rawPeer) write(opcode byte, payload string) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err := p.conn.Write(p.frame(opcode, []byte(payload)))
	return err
}

// next reads a frame, and complains about all that RFC 6455 forbids.
func (p *rawPeer) next() (opcode byte, final bool, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(p.reader, head[:]); err != nil {
		return 0, false, nil, err
	}
	opcode, final = head[0]&0xF, head[0]&0x80 != 0
	masked, size := head[1]&0x80 != 0, uint64(head[1]&0x7F)
	var long [8]byte
	switch size {
	case 126:
		_, err = io.ReadFull(p.reader, long[6:])
		size = binary.BigEndian.Uint64(long[:])
	case 127:
		_, err = io.ReadFull(p.reader, long[:])
		size = binary.BigEndian.Uint64(long[:])
	}
	switch {
	case err != nil:
		return 0, false, nil, err
	case head[0]&0x70 != 0:
		return 0, false, nil, fmt.Errorf("reserved bits %x", head[0])
	case masked == p.client:
		return 0, false, nil, fmt.Errorf("masked: %v", masked)
	case opcode > opBinary && (opcode < opClose || opcode > opPong):
		return 0, false, nil, fmt.Errorf("unknown opcode %x", opcode)
	case opcode >= opClose && (size > 125 || !final):
		return 0, false, nil, fmt.Errorf("control frame of %d bytes, final: %v", size, final)
	case size > 16<<20:
		return 0, false, nil, fmt.Errorf("frame of %d bytes", size)
	}
	var mask [4]byte
	if masked {
		if _, err := io.ReadFull(p.reader, mask[:]); err != nil {
			return 0, false, nil, err
		}
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(p.reader, payload); err != nil {
		return 0, false, nil, err
	}
	if masked {
		for i := range payload {
			payload[i] ^= mask[i%4]
		}
	}
	return opcode, final, payload, nil
}

// quiet checks that nothing comes for a while.
func (p *rawPeer) quiet(d time.Duration) {
	p.t.Helper()
	require.NoError(p.t, p.conn.SetReadDeadline(time.Now().Add(d)))
	_, _, payload, err := p.next()
	require.Error(p.t, err, "%s", payload)
	require.NoError(p.t, p.conn.SetReadDeadline(time.Time{}))
}

// pingMessage is a Ping of link v1, which is a message, not a WebSocket ping.
const pingMessage = `{"Depth":0,"Event":7,"Kind":null,"MsgId":"p","AdditionalProperties":null}`

// checksumMessage is a NewChecksum.
func checksumMessage(name string) string {
	return `{"Depth":1,"Event":0,"Kind":{"Group":"apps","Version":"v1","Resource":"deployments","AdditionalProperties":null},"MsgId":"m","Name":"` + name +
		`","Namespace":"default","ResourceVersion":0,"Checksum":"c","AdditionalProperties":null}`
}
