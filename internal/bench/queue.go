// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"synchronizer"
)

// QueueOptions configure Queue.
type QueueOptions struct {
	BrokerOptions
	Broker   string // one of Brokers
	Seed     uint64
	Records  int // of one run of one side
	Runs     int // pairs of them
	Command  string
	Progress *Progress
}

const (
	groupQueue    = "the adapter of this project"
	groupLibrary  = "the broker's library alone"
	groupCompared = "compared"

	recordsPerSecond = "records per second, published, read and acknowledged"
	// warmUp is published before the clock runs.
	warmUp = 4 * batchRecords
)

// queueGoals are records per second with two cores, the broker's among them.
var queueGoals = map[string]float64{Embedded: 40_000, NATS: 40_000, Kafka: 20_000, Pulsar: 8_000}

// Queue measures what a queue carries: one producer, one consumer that
// acknowledges, records of 2 KiB. In turn with each run of the adapter the
// broker's own library carries the same.
func Queue(ctx context.Context, o QueueOptions) (_ *Report, err error) {
	report := &Report{
		Benchmark: "queue, " + o.Broker, Command: o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs,
	}
	b, err := o.start(ctx, o.Broker)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	records, err := putRecords(o.Seed, b.encoding)
	if err != nil {
		return nil, err
	}
	for run := range o.Runs {
		if err := o.pair(ctx, report, b, records, run); err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", run+1, o.Runs, err)
		}
	}
	report.Notes = append(report.Notes, o.note(b, records))
	return report, nil
}

func (o *QueueOptions) note(b *broker, records []synchronizer.Record) string {
	return fmt.Sprintf("%s A run of a side carries %s records, each with a payload of %s bytes (PutObject, encoding %s, text of generated Deployments, seed %d) and %d properties, "+
		"in calls of %d, %d of them open at once, that wait for the broker's confirmation; the reader takes up to %d and acknowledges them, and waits for the answer to that. "+
		"The sides take turns, and the first of a pair is every time the other one; a ratio is that of a pair. The library is given messages made beforehand, with the same bytes: %s. Producer and consumer are one process.",
		b.about, number(float64(o.Records)), number(float64(len(records[0].Payload))), encodingName(b.encoding), o.Seed, len(records[0].Properties), batchRecords, callsAtOnce, readAtOnce, b.library)
}

// pair runs both sides.
func (o *QueueOptions) pair(ctx context.Context, report *Report, b *broker, records []synchronizer.Record, run int) error {
	groups := []string{groupQueue, groupLibrary}
	open := map[string]func(context.Context, []synchronizer.Record) (side, error){groupQueue: b.adapter, groupLibrary: b.raw}
	if run%2 == 1 {
		groups[0], groups[1] = groups[1], groups[0]
	}
	rate, cpu := map[string]float64{}, map[string]float64{}
	for _, group := range groups {
		o.Progress.Start(group, o.Records)
		m, err := o.measure(ctx, b, open[group], records)
		o.Progress.Stop()
		if err != nil {
			return fmt.Errorf("%s: %w", group, err)
		}
		rate[group], cpu[group] = float64(o.Records)/m.took.Seconds(), m.perRecord(m.own+m.broker, o.Records)
		goal := (*Goal)(nil)
		if group == groupQueue {
			goal = atLeast(queueGoals[o.Broker])
		}
		report.add(group, recordsPerSecond, "/s", rate[group], goal)
		report.add(group, "CPU time per record, producer and consumer"+b.with, "µs", m.perRecord(m.own, o.Records), nil)
		if b.cpu != nil {
			report.add(group, "CPU time per record, broker", "µs", m.perRecord(m.broker, o.Records), nil)
		}
		report.add(group, "records read more than once", "", float64(m.repeated), nil)
	}
	report.add(groupCompared, "records per second, as a part of those of the library", "", rate[groupQueue]/rate[groupLibrary], atLeast(.7))
	report.add(groupCompared, "CPU time per record, as a multiple of that of the library", "", cpu[groupQueue]/cpu[groupLibrary], nil)
	return nil
}

type measured struct {
	transfer
	own, broker time.Duration // CPU
}

func (m *measured) perRecord(cpu time.Duration, records int) float64 {
	return float64(cpu.Nanoseconds()) / 1e3 / float64(records)
}

// measure opens a side, warms it up, and lets it carry the records.
func (o *QueueOptions) measure(ctx context.Context, b *broker, open func(context.Context, []synchronizer.Record) (side, error), records []synchronizer.Record) (m measured, err error) {
	s, err := open(ctx, records)
	if err != nil {
		return m, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, s.close(closing))
	}()
	if _, err := carry(ctx, s, records, warmUp, nil); err != nil {
		return m, fmt.Errorf("warming up: %w", err)
	}
	own, broker, err := b.usage()
	if err != nil {
		return m, err
	}
	if m.transfer, err = carry(ctx, s, records, o.Records, o.Progress); err != nil {
		return m, err
	}
	ownAfter, brokerAfter, err := b.usage()
	m.own, m.broker = ownAfter-own, brokerAfter-broker
	return m, err
}
