// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"synchronizer"
	"synchronizer/internal/kube/recorded"
	"synchronizer/internal/queue"
	"synchronizer/internal/wire"

	"synchronizer/internal/bench/fleetclient"
)

// A stamp is the time at which something was sent, in the text of a body, where it
// survives every encoding on the way.
const (
	stampSign   = '@'
	stampDigits = 19 // of nanoseconds of Unix time
)

// readStamp finds the stamp.
func readStamp(text []byte) (time.Time, bool) {
	at := bytes.IndexByte(text, stampSign)
	if at < 0 || len(text) < at+1+stampDigits {
		return time.Time{}, false
	}
	ns, err := strconv.ParseInt(string(text[at+1:at+1+stampDigits]), 10, 64)
	return time.Unix(0, ns), err == nil
}

// writeStamp replaces the stamp.
func writeStamp(text []byte, t time.Time) {
	at := bytes.IndexByte(text, stampSign)
	strconv.AppendInt(text[at+1:at+1:at+1+stampDigits], t.UnixNano(), 10)
}

// stampedBody is an object of so many bytes, or a few more if they are very few.
func stampedBody(size int) []byte {
	body := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"sent":"` + string(stampSign) + strings.Repeat("0", stampDigits) + `","pad":"`
	const end = `"}}}`
	return []byte(body + strings.Repeat("x", max(0, size-len(body)-len(end))) + end)
}

// fleetCluster is the cluster of a client.
func fleetCluster(number int) synchronizer.ClusterID {
	return synchronizer.ClusterID{Account: "11111111-2222-3333-4444-555555555555", Cluster: fmt.Sprintf("fleet-%05d", number)}
}

// stampedPut is the frame of a PutObject with a stamp.
func stampedPut(size int) ([]byte, error) {
	frame, err := wire.AppendV1(nil, stampedMessage(0, size))
	if err != nil {
		return nil, fmt.Errorf("encoding a frame: %w", err)
	}
	return fleetclient.AppendFrame(nil, frame), nil
}

func stampedMessage(cluster, size int) *synchronizer.Message {
	return &synchronizer.Message{
		Event: synchronizer.EventPut, MsgID: uuid.NewString(), Kind: recorded.Deployments, Namespace: "team", Name: "web",
		Checksum: strings.Repeat("0", 64), Body: stampedBody(size), ClusterID: fleetCluster(cluster),
	}
}

// fleetCommands is what the server's process publishes for clients: in each of
// Rounds one command to each of Clients clients, from First on, and Special ones to
// one more.
type fleetCommands struct {
	First, Clients, Rounds, Bytes int
	Special, SpecialClient        int
	Rate                          float64 // rounds per second; 0: as fast as they are taken
}

// perRound is the number of commands in a round.
func (c *fleetCommands) perRound() int { return c.Clients + c.Special }

// publish returns when the queue has confirmed all of them.
func (c *fleetCommands) publish(ctx context.Context, q synchronizer.Queue) error {
	encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	n := c.perRound()
	batch := make([]synchronizer.Record, 0, batchRecords)
	start := time.Now()
	for i := range n * c.Rounds {
		inRound := i % n
		cluster := c.First + inRound
		if inRound >= c.Clients {
			cluster = c.SpecialClient
		}
		due := start
		if c.Rate > 0 {
			due = start.Add(time.Duration(float64(i) / (float64(n) * c.Rate) * float64(time.Second)))
			if early := time.Until(due); early > 0 { // what is due by now goes first
				if err := publishCommands(ctx, q, &batch); err != nil {
					return err
				}
				if err := wait(ctx, early); err != nil {
					return err
				}
			}
		} else {
			due = time.Now()
		}
		m := stampedMessage(cluster, c.Bytes)
		writeStamp(m.Body, due)
		r, err := encoder.Encode(m, queue.Extra{})
		if err != nil {
			return fmt.Errorf("encoding a command: %w", err)
		}
		if batch = append(batch, r); len(batch) == cap(batch) {
			if err := publishCommands(ctx, q, &batch); err != nil {
				return err
			}
		}
	}
	return publishCommands(ctx, q, &batch)
}

func publishCommands(ctx context.Context, q synchronizer.Queue, batch *[]synchronizer.Record) error {
	if len(*batch) == 0 {
		return nil
	}
	if err := q.Publish(ctx, synchronizer.In, *batch); err != nil {
		return fmt.Errorf("publishing commands: %w", err)
	}
	*batch = (*batch)[:0]
	return nil
}

// fleetLatencies sum up how long messages took.
type fleetLatencies struct {
	Messages      int
	P50, P99, Max time.Duration
}

func summarize(latencies []time.Duration) fleetLatencies {
	slices.Sort(latencies)
	return fleetLatencies{
		Messages: len(latencies), P50: quantile(latencies, .5), P99: quantile(latencies, .99), Max: quantile(latencies, 1),
	}
}
