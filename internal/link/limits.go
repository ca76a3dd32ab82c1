// SPDX-License-Identifier: Apache-2.0

package link

import "time"

// Limits of one connection. Zero values take the defaults.
type Limits struct {
	// MaxMessageBytes is the size of the largest frame that is sent or accepted;
	// larger ones are dropped, and the connection stays up. Default 64 MiB.
	MaxMessageBytes int
	// WriteTimeout ends the connection when not one byte could be written for so
	// long. Default 30 s for a client, 120 s for a server: clients in the field may
	// not read for 90 s after a reconnect.
	WriteTimeout time.Duration
	// PingInterval is the time between two Pings of a client, and half the time
	// after which a server gives up a silent client. Default 50 s, which is what
	// clients in the field have.
	PingInterval time.Duration
	// UnackedTimeout ends a client's connection when the machine at its other end
	// has not confirmed data or a keep-alive for so long (Linux only). Default 45 s:
	// the longest silence and this are less than two ping intervals.
	UnackedTimeout time.Duration
	// CloseTimeout is how long Close waits for the farewell of the peer. Default 800 ms.
	CloseTimeout time.Duration
}

const (
	defaultMaxMessageBytes   = 64 << 20
	defaultPingInterval      = 50 * time.Second
	clientWriteTimeout       = 30 * time.Second
	serverWriteTimeout       = 120 * time.Second
	closeTimeout             = 800 * time.Millisecond
	handshakeTimeout         = 30 * time.Second
	prefixBytes              = 64 << 10 // kept of a frame that is too large
	maxPooledBytes           = 1 << 20
	chunkBytes               = 64 << 10
	readerBytes              = 512     // of the buffer in which a server waits for what comes
	clientReaderBytes        = 4 << 10 // of the buffer through which the WebSocket of a client reads
	headerReaderBytes        = 16      // of the buffer through which that of a server reads headers of frames
	headerWriterBytes        = 128     // holds the header of a frame, or a whole control frame
	unackedTimeout           = 45 * time.Second
	tcpKeepAlive             = 15 * time.Second
	maxRefusalText           = 300
	maxHeaderBytes           = 64 << 10
	defaultTCPConnectTimeout = 15 * time.Second
)

func (l Limits) withDefaults(writeTimeout time.Duration) Limits {
	if l.MaxMessageBytes <= 0 {
		l.MaxMessageBytes = defaultMaxMessageBytes
	}
	if l.WriteTimeout <= 0 {
		l.WriteTimeout = writeTimeout
	}
	if l.PingInterval <= 0 {
		l.PingInterval = defaultPingInterval
	}
	if l.UnackedTimeout <= 0 {
		l.UnackedTimeout = unackedTimeout
	}
	if l.CloseTimeout <= 0 {
		l.CloseTimeout = closeTimeout
	}
	return l
}
