// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"synchronizer"
)

// rawNATS is nats.go alone: asynchronous publishing and a pull consumer, with a
// connection for each as the library's own benchmarks have.
type rawNATS struct {
	write, read *natsgo.Conn
	js          jetstream.JetStream // on write
	messages    []*natsgo.Msg
	reader      jetstream.ConsumeContext
	arrived     chan jetstream.Msg
	release     func() error
}

const rawName = "raw"

// newRawNATS makes a stream on disk and a durable consumer, and removes what was
// left of a run before. Connect is called twice.
func newRawNATS(ctx context.Context, connect func() (*natsgo.Conn, error), records []synchronizer.Record, release func() error) (_ *rawNATS, err error) {
	r := &rawNATS{messages: natsMessages(records), arrived: make(chan jetstream.Msg, 4*readAtOnce), release: release}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("using nats.go: %w", err), r.close(ctx))
		}
	}()
	if r.write, err = connect(); err != nil {
		return nil, err
	}
	if r.read, err = connect(); err != nil {
		return nil, err
	}
	if r.js, err = jetstream.New(r.write, jetstream.WithPublishAsyncMaxPending(rawPending)); err != nil {
		return nil, err
	}
	if err := r.js.DeleteStream(ctx, rawName); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, err
	}
	if _, err = r.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: rawName, Subjects: []string{rawName + ".>"}, Storage: jetstream.FileStorage,
		MaxBytes: 1 << 30, Discard: jetstream.DiscardOld, Duplicates: 100 * time.Millisecond,
	}); err != nil {
		return nil, err
	}
	js, err := jetstream.New(r.read)
	if err != nil {
		return nil, err
	}
	consumer, err := js.CreateConsumer(ctx, rawName, jetstream.ConsumerConfig{
		Durable: benchGroup, AckPolicy: jetstream.AckAllPolicy, DeliverPolicy: jetstream.DeliverAllPolicy, MaxAckPending: 1 << 17,
	})
	if err != nil {
		return nil, err
	}
	r.reader, err = consumer.Consume(func(m jetstream.Msg) { r.arrived <- m }, jetstream.PullMaxMessages(4*readAtOnce))
	return r, err
}

// rawPending is above what all calls together publish at once.
const rawPending = 1 << 16

// natsMessages are the records in the form of the library, as the adapter sends
// them.
func natsMessages(records []synchronizer.Record) []*natsgo.Msg {
	messages := make([]*natsgo.Msg, len(records))
	for i := range records {
		m := natsgo.NewMsg(rawName + ".out.0." + fmt.Sprintf("cluster-%02d", i%recordClusters))
		for _, p := range records[i].Properties {
			m.Header[p.Name] = []string{p.Value}
		}
		m.Data = records[i].Payload
		messages[i] = m
	}
	return messages
}

func (r *rawNATS) publish(ctx context.Context, from, to int) error {
	return publishNATS(ctx, r.js, r.messages[from:to])
}

func (r *rawNATS) send(ctx context.Context, connection string, payloads [][]byte) error {
	messages := make([]*natsgo.Msg, len(payloads))
	for i, payload := range payloads {
		messages[i] = &natsgo.Msg{Subject: rawName + ".out.0." + connection, Data: payload}
	}
	return publishNATS(ctx, r.js, messages)
}

// publishNATS returns when all are confirmed.
func publishNATS(ctx context.Context, js jetstream.JetStream, messages []*natsgo.Msg) error {
	confirmed := make([]jetstream.PubAckFuture, len(messages))
	for i, m := range messages {
		m.Reply = "" // the library's own, of the time before
		var err error
		if confirmed[i], err = js.PublishMsgAsync(m); err != nil {
			return err
		}
	}
	for _, c := range confirmed {
		select {
		case <-c.Ok():
		case err := <-c.Err():
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// next waits for one record and takes what else the library has at hand.
func (r *rawNATS) next(ctx context.Context) (n, bytes int, ack func(context.Context) error, err error) {
	var last jetstream.Msg
	select {
	case last = <-r.arrived:
	case <-ctx.Done():
		return 0, 0, nil, context.Cause(ctx)
	}
	n, bytes = 1, len(last.Data())
	for n < readAtOnce {
		select {
		case last = <-r.arrived:
			n, bytes = n+1, bytes+len(last.Data())
			continue
		default:
		}
		break
	}
	return n, bytes, last.DoubleAck, nil
}

func (r *rawNATS) close(_ context.Context) error {
	if r.reader != nil {
		r.reader.Stop()
		for len(r.arrived) > 0 { // the callback may be waiting for room
			<-r.arrived
		}
	}
	for _, c := range []*natsgo.Conn{r.write, r.read} {
		if c != nil {
			c.Close()
		}
	}
	return r.release()
}
