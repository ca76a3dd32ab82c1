// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"strings"

	"synchronizer"
)

var _ synchronizer.Reachable = (*Queue)(nil)

// Reachable implements synchronizer.Reachable: a broker answers, and knows the topics
// and a leader for each partition of them.
func (q *Queue) Reachable(ctx context.Context) error {
	ctx, done := q.join(ctx)
	defer done()
	err := q.ask(ctx)
	if q.ctx.Err() != nil {
		err = context.Cause(q.ctx)
	}
	if err != nil {
		return fmt.Errorf("asking Kafka at %s: %w", strings.Join(q.BootstrapServers, ", "), err)
	}
	return nil
}

func (q *Queue) ask(ctx context.Context) error {
	// Asking for topics is tried again until ctx ends; this says at once what is wrong.
	if err := q.client.Ping(ctx); err != nil {
		return err
	}
	topics, err := q.admin.ListTopics(ctx, q.OutTopic, q.InTopic)
	if err != nil {
		return fmt.Errorf("reading topics: %w", err)
	}
	for _, topic := range topics.Sorted() {
		if topic.Err != nil {
			return fmt.Errorf("topic %s: %w", topic.Topic, topic.Err)
		}
		for _, partition := range topic.Partitions.Sorted() {
			if partition.Err != nil {
				return fmt.Errorf("partition %d of topic %s: %w", partition.Partition, topic.Topic, partition.Err)
			}
		}
	}
	return nil
}
