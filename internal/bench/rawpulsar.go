// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"

	"synchronizer"
)

// rawPulsar is pulsar-client-go alone: a producer that batches by key, and a
// Key_Shared subscription whose messages are acknowledged one by one, as its
// documentation shows it.
type rawPulsar struct {
	client   pulsar.Client
	producer pulsar.Producer
	consumer pulsar.Consumer
	messages []*pulsar.ProducerMessage
}

const rawPulsarTopic = "persistent://public/default/" + rawName

func newRawPulsar(ctx context.Context, url string, records []synchronizer.Record) (_ *rawPulsar, err error) {
	r := &rawPulsar{messages: make([]*pulsar.ProducerMessage, len(records))}
	for i := range records {
		m := &pulsar.ProducerMessage{Key: records[i].Key, OrderingKey: records[i].Key, Payload: records[i].Payload, Properties: map[string]string{}}
		for _, p := range records[i].Properties {
			m.Properties[p.Name] = p.Value
		}
		r.messages[i] = m
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("using pulsar-client-go: %w", err), r.close(ctx))
		}
	}()
	r.client, err = pulsar.NewClient(pulsar.ClientOptions{URL: url, OperationTimeout: startTimeout, Logger: log.NewLoggerWithSlog(quiet())})
	if err != nil {
		return r, err
	}
	r.producer, err = r.client.CreateProducer(pulsar.ProducerOptions{
		Topic: rawPulsarTopic, BatcherBuilderType: pulsar.KeyBasedBatchBuilder, BatchingMaxPublishDelay: time.Millisecond,
		CompressionType: pulsar.ZSTD, CompressionLevel: pulsar.Faster, MaxPendingMessages: rawPending, SendTimeout: -1,
	})
	if err != nil {
		return r, err
	}
	r.consumer, err = r.client.Subscribe(pulsar.ConsumerOptions{
		Topic: rawPulsarTopic, SubscriptionName: benchGroup, Type: pulsar.KeyShared, SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	})
	return r, err
}

func (r *rawPulsar) publish(ctx context.Context, from, to int) error {
	return r.sendAll(ctx, r.messages[from:to])
}

func (r *rawPulsar) send(ctx context.Context, connection string, payloads [][]byte) error {
	messages := make([]*pulsar.ProducerMessage, len(payloads))
	for i, payload := range payloads {
		messages[i] = &pulsar.ProducerMessage{Key: connection, OrderingKey: connection, Payload: payload}
	}
	return r.sendAll(ctx, messages)
}

// sendAll returns when all are confirmed.
func (r *rawPulsar) sendAll(ctx context.Context, messages []*pulsar.ProducerMessage) error {
	confirmed := make(chan error, len(messages))
	for _, m := range messages {
		r.producer.SendAsync(ctx, m, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { confirmed <- err })
	}
	for range messages {
		select {
		case err := <-confirmed:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// next waits for one message and takes what else the library has at hand.
func (r *rawPulsar) next(ctx context.Context) (n, bytes int, ack func(context.Context) error, err error) {
	var ids []pulsar.MessageID
	take := func(m pulsar.ConsumerMessage) {
		ids, bytes = append(ids, m.ID()), bytes+len(m.Payload())
	}
	select {
	case m := <-r.consumer.Chan():
		take(m)
	case <-ctx.Done():
		return 0, 0, nil, context.Cause(ctx)
	}
gather:
	for len(ids) < readAtOnce {
		select {
		case m := <-r.consumer.Chan():
			take(m)
		default:
			break gather
		}
	}
	return len(ids), bytes, func(context.Context) error {
		for _, id := range ids {
			if err := r.consumer.AckID(id); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (r *rawPulsar) close(_ context.Context) error {
	if r.consumer != nil {
		r.consumer.Close()
	}
	if r.producer != nil {
		r.producer.Close()
	}
	if r.client != nil {
		r.client.Close()
	}
	return nil
}
