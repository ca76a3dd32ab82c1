// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
)

// rawKafka is franz-go alone: an idempotent producer and a group with manual
// commits, with a client for each.
type rawKafka struct {
	producer, consumer *kgo.Client
	records            []synchronizer.Record
}

// rawPartitions is what the adapter makes.
const rawPartitions = 16

// newRawKafka makes the topic if there is none, and joins the group.
func newRawKafka(ctx context.Context, address string, records []synchronizer.Record) (_ *rawKafka, err error) {
	r := &rawKafka{records: records}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("using franz-go: %w", err), r.close(ctx))
		}
	}()
	r.producer, err = kgo.NewClient(kgo.SeedBrokers(address), kgo.DisableClientMetrics(), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.NoCompression()), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(rawPending),
		kgo.DefaultProduceTopic(rawName))
	if err != nil {
		return r, err
	}
	made, err := kadm.NewClient(r.producer).CreateTopic(ctx, rawPartitions, -1, nil, rawName)
	if err == nil {
		err = made.Err
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return r, err
	}
	r.consumer, err = kgo.NewClient(kgo.SeedBrokers(address), kgo.DisableClientMetrics(), kgo.ConsumerGroup(benchGroup+"-"+rawName), kgo.ConsumeTopics(rawName),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit())
	return r, err
}

func (r *rawKafka) publish(ctx context.Context, from, to int) error {
	batch := make([]*kgo.Record, 0, to-from)
	for i := range r.records[from:to] {
		batch = append(batch, kafkaRecord(&r.records[from+i]))
	}
	return r.producer.ProduceSync(ctx, batch...).FirstErr()
}

func (r *rawKafka) send(ctx context.Context, connection string, payloads [][]byte) error {
	batch := make([]*kgo.Record, len(payloads))
	for i, payload := range payloads {
		batch[i] = &kgo.Record{Key: []byte(connection), Value: payload}
	}
	return r.producer.ProduceSync(ctx, batch...).FirstErr()
}

// kafkaRecord is made for each call: the library writes into what it is given.
func kafkaRecord(r *synchronizer.Record) *kgo.Record {
	record := &kgo.Record{Key: []byte(r.Key), Value: r.Payload, Headers: make([]kgo.RecordHeader, len(r.Properties))}
	for i, p := range r.Properties {
		record.Headers[i] = kgo.RecordHeader{Key: p.Name, Value: []byte(p.Value)}
	}
	return record
}

func (r *rawKafka) next(ctx context.Context) (n, bytes int, ack func(context.Context) error, err error) {
	fetches := r.consumer.PollRecords(ctx, readAtOnce)
	if err := fetches.Err0(); err != nil {
		return 0, 0, nil, err
	}
	if err := fetches.Err(); err != nil {
		return 0, 0, nil, err
	}
	records := fetches.Records()
	for _, record := range records {
		bytes += len(record.Value)
	}
	return len(records), bytes, func(ctx context.Context) error { return r.consumer.CommitRecords(ctx, records...) }, nil
}

func (r *rawKafka) close(_ context.Context) error {
	for _, c := range []*kgo.Client{r.producer, r.consumer} {
		if c != nil {
			c.Close()
		}
	}
	return nil
}
