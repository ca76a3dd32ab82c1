// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"synchronizer"
)

// Before the library is used, Open shakes hands with the broker itself: it tells
// at once, and in words, what is wrong, where the library tries for long; and it
// learns how large a message may be, which the library keeps to itself.

const (
	handshakeTimeout = 10 * time.Second
	largestAnswer    = 64 << 10

	// Commands of the protocol, and fields of theirs.
	typeConnect, fieldConnect     = 2, 2
	typeConnected, fieldConnected = 3, 3
	typeError, fieldError         = 14, 14
	protocolVersion               = 19
)

var errRefused = errors.New("broker refuses the connection")

// handshake connects to one broker and returns the size of its largest message in
// bytes, 0 if it does not say.
func handshake(ctx context.Context, address string, config *tls.Config, method, credentials string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if config != nil {
		config = config.Clone()
		if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return 0, fmt.Errorf("connecting to %q: %w", address, err)
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return 0, fmt.Errorf("connecting with TLS: %w", err)
		}
		conn = secure
	}
	if _, err := conn.Write(connectFrame(method, credentials)); err != nil {
		return 0, fmt.Errorf("sending to broker: %w", err)
	}
	command, err := readFrame(conn)
	if err != nil {
		return 0, fmt.Errorf("reading the broker's answer (is this Pulsar's own port?): %w", err)
	}
	return connected(command)
}

func connectFrame(method, credentials string) []byte {
	var body []byte
	text := func(number protowire.Number, value string) {
		body = protowire.AppendTag(body, number, protowire.BytesType)
		body = protowire.AppendString(body, value)
	}
	text(1, "synchronizer")
	if credentials != "" {
		text(3, credentials)
	}
	body = protowire.AppendTag(body, 4, protowire.VarintType)
	body = protowire.AppendVarint(body, protocolVersion)
	if method != "" {
		text(5, method)
	}
	command := protowire.AppendTag(nil, 1, protowire.VarintType)
	command = protowire.AppendVarint(command, typeConnect)
	command = protowire.AppendTag(command, fieldConnect, protowire.BytesType)
	command = protowire.AppendBytes(command, body)

	frame := binary.BigEndian.AppendUint32(nil, uint32(len(command)+4))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(command)))
	return append(frame, command...)
}

// readFrame reads one command.
func readFrame(r io.Reader) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	total, size := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	if size > largestAnswer || total < size+4 {
		return nil, fmt.Errorf("%w: no command of Pulsar", synchronizer.ErrInvalid)
	}
	command := make([]byte, size)
	_, err := io.ReadFull(r, command)
	return command, err
}

// connected reads the answer to a connect command.
func connected(command []byte) (maxMessage int, err error) {
	fields, err := parse(command)
	if err != nil {
		return 0, err
	}
	switch fields[1].number {
	case typeConnected:
		answer, err := parse(fields[fieldConnected].bytes)
		if err != nil {
			return 0, err
		}
		return int(answer[3].number & 0x7fffffff), nil
	case typeError:
		answer, err := parse(fields[fieldError].bytes)
		if err != nil {
			return 0, err
		}
		reason := string(answer[3].bytes)
		if code := answer[2].number; code == 3 || code == 4 { // authentication, authorization
			return 0, fmt.Errorf("%w: %w: %s", errRefused, synchronizer.ErrUnauthorized, reason)
		}
		return 0, fmt.Errorf("%w: %s", errRefused, reason)
	}
	return 0, fmt.Errorf("%w: unexpected command %d of the broker", synchronizer.ErrInvalid, fields[1].number)
}

// field is one value of a message, of which the last counts.
type field struct {
	number uint64
	bytes  []byte
}

func parse(message []byte) (map[protowire.Number]field, error) {
	fields := map[protowire.Number]field{}
	for len(message) > 0 {
		name, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, fmt.Errorf("%w: command of the broker: %w", synchronizer.ErrInvalid, protowire.ParseError(n))
		}
		message = message[n:]
		var f field
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(name, kind, message)
		}
		if n < 0 {
			return nil, fmt.Errorf("%w: command of the broker: %w", synchronizer.ErrInvalid, protowire.ParseError(n))
		}
		message = message[n:]
		fields[name] = f
	}
	return fields, nil
}
