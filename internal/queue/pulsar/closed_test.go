// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"context"
	"errors"
	"strconv"
	"testing"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/backoff"
	"github.com/stretchr/testify/require"

	"synchronizer/test/brokers"
)

// endingReader gives ten messages behind its start, and is then closed for good.
type endingReader struct {
	next, end int64
}

func (r *endingReader) Next(context.Context) (client.Message, error) {
	if r.next == r.end {
		return nil, errors.New("consumer closed")
	}
	r.next++
	return fakeMessage{number: r.next}, nil
}

func (*endingReader) GetLastMessageID() (client.MessageID, error) {
	return client.NewMessageID(1, 0, -1, 0), nil
}
func (*endingReader) Close() {}

type fakeMessage struct {
	client.Message
	number int64
}

func (m fakeMessage) ID() client.MessageID        { return client.NewMessageID(1, m.number, -1, 0) }
func (fakeMessage) Key() string                   { return "" }
func (fakeMessage) OrderingKey() string           { return "account/cluster" }
func (fakeMessage) Topic() string                 { return "topic" }
func (fakeMessage) Properties() map[string]string { return nil }
func (m fakeMessage) Payload() []byte             { return []byte(strconv.FormatInt(m.number-1, 10)) }

// TestB088ReaderClosedAfterTenMessages: it is replaced by one that begins behind the
// last record.
func TestB088ReaderClosedAfterTenMessages(t *testing.T) {
	q := openQueue(t, configOn(t, brokers.SharedPulsar(t)))
	q.newReader = func(_ string, start client.MessageID, _ func() backoff.Policy) (messageReader, error) {
		from := max(start.EntryID(), 0)
		return &endingReader{from, from + 10}, nil
	}
	tail, err := q.Tail(t.Context())
	require.NoError(t, err)
	requireNumbers(t, tailAll(t, tail, 30), 0, 30)
	require.NoError(t, tail.Close())
}
