// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/ingest"
	"synchronizer/internal/kube/recorded"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/nats"
	"synchronizer/internal/rawjson"
)

// ingestWork are the records of a run, as a server publishes them.
type ingestWork struct {
	inserts, updates []synchronizer.Record
	about            Data
}

// newIngestWork generates objects of recordClusters clusters, and a second state of
// each: a new resourceVersion and other numbers in the status.
func newIngestWork(seed uint64, n int) (*ingestWork, error) {
	w := &ingestWork{}
	encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Server}
	source := uuid.NewString()
	var bodies [][]byte
	i := 0
	record := func(item *recorded.Item, body []byte, seq int) (synchronizer.Record, error) {
		sum, err := checksum.ObjectV1(body)
		if err != nil {
			return synchronizer.Record{}, err
		}
		return encoder.Encode(&synchronizer.Message{
			Event: synchronizer.EventPut, Depth: 2, MsgID: uuid.NewString(), Kind: item.Kind, Namespace: item.Namespace, Name: item.Name,
			Checksum: sum, Body: body, ClusterID: recordCluster(i), Stamp: synchronizer.Stamp{Source: source, Seq: uint64(seq)},
		}, queue.Extra{Link: "v1"})
	}
	for item := range recorded.Generate(recorded.Deployments, seed, n) {
		later, err := laterState(item.Body, i)
		if err != nil {
			return nil, fmt.Errorf("changing an object: %w", err)
		}
		first, err := record(&item, item.Body, i+1)
		if err != nil {
			return nil, fmt.Errorf("encoding a record: %w", err)
		}
		second, err := record(&item, later, n+i+1)
		if err != nil {
			return nil, fmt.Errorf("encoding a record: %w", err)
		}
		bodies = append(bodies, item.Body)
		w.inserts, w.updates = append(w.inserts, first), append(w.updates, second)
		i++
	}
	var err error
	w.about, err = describe(fmt.Sprintf("Deployments generated in an API server's form, seed %d", seed), bodies)
	return w, err
}

// laterState changes the resourceVersion and, where there is one, a number of the
// status.
func laterState(body []byte, i int) ([]byte, error) {
	meta, err := rawjson.Metadata(body)
	if err != nil {
		return nil, err
	}
	body = bytes.Replace(body, []byte(`"resourceVersion":"`+meta.ResourceVersion+`"`), []byte(`"resourceVersion":"`+strconv.Itoa(9_000_000+i)+`"`), 1)
	return bytes.Replace(body, []byte(`"readyReplicas":`), []byte(`"unavailableReplicas":1,"readyReplicas":`), 1), nil
}

// chain is a queue, an ingester and a store in this process.
type chain struct {
	dir   string
	queue *nats.Queue
	store benchStore
	acks  *countedAcks
	end   func() error // of the ingester
}

const (
	publishCalls = 4 // open at once
	publishEach  = 250
)

func publishAtOnceBy() int { return publishEach }

func (o *IngestOptions) openChain(ctx context.Context, db benchDatabase) (_ *chain, err error) {
	c := &chain{end: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.dir, err = os.MkdirTemp("", "synchronizer-bench-"); err != nil {
		return nil, fmt.Errorf("making a folder for the queue: %w", err)
	}
	if c.store, err = db.open(ctx); err != nil {
		return nil, err
	}
	if c.queue, err = nats.OpenEmbedded(ctx, nats.EmbeddedConfig{Dir: c.dir, Logger: quiet()}); err != nil {
		return nil, err
	}
	c.acks = &countedAcks{Queue: c.queue, changed: make(chan struct{}, 1)}
	ingester := ingest.New(ingest.Options{
		Queue: c.acks, Store: c.store, Encoder: queue.Encoder{Encoding: queue.Compact}, Group: benchGroup,
		Workers: o.Workers, BatchRecords: ingestBatch, BatchBytes: readBytes,
		Logger: quiet(), Registerer: prometheus.NewRegistry(), Drop: func(synchronizer.DropReason, string) {},
	})
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- ingester.Run(running) }()
	c.end = func() error {
		cancel()
		return <-done
	}
	return c, nil
}

// carry publishes records and waits until all of them are acknowledged.
func (c *chain) carry(ctx context.Context, records []synchronizer.Record, bar *Progress) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	target := c.acks.now() + len(records)
	start := time.Now()
	var publishing sync.WaitGroup
	// Calls that follow each other keep their order, so those of one cluster must
	// not run side by side: the records of a call are of other clusters than those
	// of the calls beside it.
	for part := range publishCalls {
		publishing.Go(func() {
			var call []synchronizer.Record
			flush := func() {
				if err := c.queue.Publish(ctx, synchronizer.Out, call); err != nil {
					cancel(fmt.Errorf("publishing: %w", err))
				}
				call = call[:0]
			}
			for i := range records {
				if i%recordClusters%publishCalls != part {
					continue
				}
				if call = append(call, records[i]); len(call) == publishEach {
					flush()
				}
			}
			if len(call) > 0 {
				flush()
			}
		})
	}
	err := c.acks.wait(ctx, target, bar)
	took := time.Since(start)
	publishing.Wait()
	return took, err
}

func (c *chain) close() error {
	err := c.end()
	if c.queue != nil {
		closing, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		err = errors.Join(err, c.queue.Close(closing))
	}
	if c.store != nil {
		err = errors.Join(err, c.store.Close())
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// countedAcks is a queue that knows how many records are acknowledged.
type countedAcks struct {
	*nats.Queue
	changed chan struct{}

	mu       sync.Mutex
	received int
	acked    int
}

func (q *countedAcks) Consume(ctx context.Context, group string) (synchronizer.Consumer, error) {
	c, err := q.Queue.Consume(ctx, group)
	if err != nil {
		return nil, err
	}
	return countedConsumer{c, q}, nil
}

type countedConsumer struct {
	synchronizer.Consumer
	q *countedAcks
}

func (c countedConsumer) Next(ctx context.Context, most, mostBytes int) (synchronizer.Batch, error) {
	b, err := c.Consumer.Next(ctx, most, mostBytes)
	if err != nil {
		return b, err
	}
	c.q.mu.Lock()
	c.q.received += len(b.Records)
	upTo := c.q.received
	c.q.mu.Unlock()
	ack := b.Ack
	b.Ack = func(ctx context.Context) error {
		if err := ack(ctx); err != nil {
			return err
		}
		c.q.mu.Lock()
		c.q.acked = upTo
		c.q.mu.Unlock()
		select {
		case c.q.changed <- struct{}{}:
		default:
		}
		return nil
	}
	return b, nil
}

func (q *countedAcks) now() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.acked
}

func (q *countedAcks) wait(ctx context.Context, target int, bar *Progress) error {
	limit := time.NewTimer(transferLimit)
	defer limit.Stop()
	for last := q.now(); last < target; {
		select {
		case <-q.changed:
		case <-limit.C:
			return fmt.Errorf("no record was acknowledged for %s", transferLimit)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now := q.now()
		bar.Add(now - last)
		last = now
		limit.Reset(transferLimit)
	}
	return nil
}
