// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/backoff"
	"github.com/stretchr/testify/require"

	"synchronizer/test/brokers"
)

// noise does not compress; it is the same for the same number.
func noise(number, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(number)}).Read(b)
	return b
}

// rawClient is Pulsar's own client.
func rawClient(t *testing.T, p *brokers.Pulsar) client.Client {
	t.Helper()
	config := configOn(t, p)
	c, err := newClient(&config, nil, operationTimeout)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func rawProducer(t *testing.T, p *brokers.Pulsar, topic string) client.Producer {
	t.Helper()
	producer, err := rawClient(t, p).CreateProducer(client.ProducerOptions{Topic: topic, SendTimeout: -1})
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	return producer
}

// backlog is how much of a subscription is not acknowledged.
func backlog(t *testing.T, p *brokers.Pulsar, config Config, subscription string) int {
	var stats struct {
		Subscriptions map[string]struct{ MsgBacklog int }
	}
	path := "persistent/" + config.Tenant + "/" + config.Namespace + "/" + config.OutTopic + "/stats"
	require.NoError(t, json.Unmarshal([]byte(p.Admin(t, http.MethodGet, path, "")), &stats))
	require.Contains(t, stats.Subscriptions, subscription)
	return stats.Subscriptions[subscription].MsgBacklog
}

// gate stands before a broker: it refuses connections until it is open, and can
// cut those that there are.
type gate struct {
	url     string
	open    atomic.Bool
	refused atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gate{url: "pulsar://" + l.Addr().String(), conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			if !g.open.Load() {
				g.refused.Add(1)
				_ = in.Close()
				continue
			}
			out, err := net.Dial("tcp", strings.TrimPrefix(to, "pulsar://"))
			if err != nil {
				_ = in.Close()
				continue
			}
			g.keep(in, out)
			pass := func(from, to net.Conn) {
				_, _ = io.Copy(to, from)
				_ = from.Close()
				_ = to.Close()
			}
			all.Go(func() { pass(in, out) })
			all.Go(func() { pass(out, in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		g.cut()
		all.Wait()
	})
	return g
}

func (g *gate) keep(conns ...net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		g.conns[c] = true
	}
}

// cut ends all connections.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		_ = c.Close()
		delete(g.conns, c)
	}
}

// fakeLibrary ends whatever reads at once.
type fakeLibrary struct {
	err                    error
	readers, subscriptions atomic.Int64
}

func (f *fakeLibrary) newReader(string, client.MessageID, func() backoff.Policy) (messageReader, error) {
	f.readers.Add(1)
	return fakeReader{f.err}, nil
}

func (f *fakeLibrary) newSubscription(string, func() backoff.Policy) (subscription, error) {
	f.subscriptions.Add(1)
	messages := make(chan client.ConsumerMessage, 1)
	messages <- client.ConsumerMessage{} // without a message
	close(messages)
	return fakeSubscription{messages}, nil
}

type fakeReader struct{ err error }

func (f fakeReader) Next(context.Context) (client.Message, error) { return nil, f.err }
func (f fakeReader) GetLastMessageID() (client.MessageID, error) {
	return client.NewMessageID(1, 1, 0, 0), nil
}
func (fakeReader) Close() {}

type fakeSubscription struct{ messages chan client.ConsumerMessage }

func (f fakeSubscription) Chan() <-chan client.ConsumerMessage { return f.messages }
func (fakeSubscription) AckIDList([]client.MessageID) error    { return nil }
func (fakeSubscription) Close()                                {}
func (fakeSubscription) GetLastMessageIDs() ([]client.TopicMessageID, error) {
	return nil, nil
}
