// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link/linktest"
	"synchronizer/internal/wire"
)

// Case B073: ping/pong written between header and payload of another frame. The case
// takes 10 s; here it is as many messages as take 2 or 3 s, for what it needs is
// that many pings meet many writes.
func TestB073PingsBetweenLargeMessages(t *testing.T) {
	for name, connect := range map[string]func(t *testing.T) (synchronizer.Link, *rawPeer){
		"our server": func(t *testing.T) (synchronizer.Link, *rawPeer) {
			s, links := testServer(t, linktest.Setup{}, (*httptest.Server).Start)
			peer := rawClient(t, s, "", nil)
			require.NoError(t, peer.write(opBinary, pingMessage))
			return <-links, peer
		},
		"our client": func(t *testing.T) (synchronizer.Link, *rawPeer) {
			url, accept := rawServer(t)
			d := &Dialer{URL: url, Hello: testHello, AccessKey: "key"}
			l, err := d.Dial(t.Context())
			require.NoError(t, err)
			return l, accept()
		},
	} {
		t.Run(name, func(t *testing.T) { flood(t, connect) })
	}
}

const (
	floodSenders  = 8
	floodMessages = 4 // of each
)

func flood(t *testing.T, connect func(t *testing.T) (synchronizer.Link, *rawPeer)) {
	ours, peer := connect(t)
	// The peer's own messages, the client's first Ping aside, come through as well.
	arrived := make(chan int, 1)
	go func() {
		n := 0
		for ; ; n++ {
			if _, err := ours.Receive(t.Context()); err != nil {
				arrived <- n
				return
			}
		}
	}()

	large := linktest.Put("", 1<<20).Body
	var sending, pinging sync.WaitGroup
	for sender := range floodSenders {
		random := rand.New(rand.NewPCG(7, uint64(sender)))
		sending.Go(func() {
			for i := 0; i < floodMessages; i += 2 {
				two := make([]synchronizer.Message, 2)
				for j := range two {
					two[j] = linktest.Checksum("sender-" + strconv.Itoa(sender))
					two[j].Event, two[j].ResourceVersion, two[j].Body = synchronizer.EventPut, int64(i+j), large[:64<<10+random.IntN(960<<10)]
				}
				if ours.Send(t.Context(), two...) != nil {
					return // the reader says why
				}
			}
		})
	}
	var pings, said int
	over := make(chan struct{})
	pinging.Go(func() {
		each := time.NewTicker(time.Millisecond)
		defer each.Stop()
		for {
			select {
			case <-over:
				return
			case <-each.C:
			}
			if peer.write(opPing, fmt.Sprintf("ping-%015d", pings)) != nil {
				return
			}
			if pings++; pings%10 == 0 {
				if peer.write(opBinary, checksumMessage("up")) != nil {
					return
				}
				said++
			}
		}
	})
	go func() {
		sending.Wait()
		close(over)
		pinging.Wait()
		_ = ours.Send(t.Context(), linktest.Checksum("last"))
		_ = peer.write(opPing, "the-last-of-20-bytes")
	}()

	var message []byte
	var next [floodSenders]int
	pongs, open, last, messages := 0, false, false, 0
	for !last || pongs <= pings {
		require.NoError(t, peer.conn.SetReadDeadline(time.Now().Add(linktest.Limit)))
		opcode, final, payload, err := peer.next()
		require.NoError(t, err, "behind %d messages and %d pongs", messages, pongs)
		switch opcode {
		case opPong:
			want := fmt.Sprintf("ping-%015d", pongs)
			if string(payload) == "the-last-of-20-bytes" {
				want = string(payload)
				require.Equal(t, pings, pongs, "every ping is answered")
			}
			require.Equal(t, want, string(payload), "every ping is answered with its payload, in order")
			pongs++
			continue
		case opBinary:
			require.False(t, open, "a message within a message")
		case opContinuation:
			require.True(t, open, "the rest of no message")
		default:
			require.FailNow(t, "unexpected frame", "opcode %x", opcode)
		}
		message, open = append(message, payload...), !final
		if open {
			continue
		}
		m, err := wire.ParseV1(message, wire.Limits{})
		require.NoError(t, err)
		message = message[:0]
		switch {
		case m.Event == synchronizer.EventPing: // the first frame of our client
		case m.Name == "last":
			last = true
		default:
			messages++
			var sender int
			_, err := fmt.Sscanf(m.Name, "sender-%d", &sender)
			require.NoError(t, err)
			require.EqualValues(t, next[sender], m.ResourceVersion, "messages of one sender keep their order")
			next[sender]++
			require.Greater(t, len(m.Body), 64<<10-1)
			require.True(t, bytes.HasPrefix(large, m.Body), "it is whole")
		}
	}
	require.Equal(t, floodSenders*floodMessages, messages)
	require.NoError(t, ours.Close(1000, ""))
	require.Equal(t, said, <-arrived)
	t.Logf("%d messages, %d pings", messages, pings)
	require.Greater(t, pings, 20)
}
