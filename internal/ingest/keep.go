// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"errors"
	"time"

	"synchronizer"
)

const (
	// keepEvery is how often the store forgets, and keepAfter how long after the
	// start for the first time.
	keepEvery, keepAfter = 10 * time.Minute, time.Minute
	// sourcesKept is how long a connection is remembered that says nothing more:
	// longer than queues keep its records.
	sourcesKept = 90 * 24 * time.Hour
)

// Forgetting is a store that forgets.
type Forgetting interface {
	synchronizer.Keeper
	synchronizer.Remover
}

// Retention says what is forgotten by age; zero is never.
type Retention struct {
	Tombstones time.Duration // how long a deletion is remembered
	Events     time.Duration // how long reports are kept
	Clusters   time.Duration // clusters that were not connected for so long
}

// forget lets the store forget now and then, until ctx ends. What fails is logged
// and comes again.
func (i *Ingester) forget(ctx context.Context) error {
	for pause := keepAfter; ; pause = keepEvery {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		now := i.Now()
		for _, step := range []struct {
			what string
			age  time.Duration
			do   func(context.Context, time.Time) (int64, error)
		}{
			{"tombstones", i.Retention.Tombstones, i.Keeper.PurgeTombstones},
			{"events", i.Retention.Events, i.Keeper.ExpireEvents},
			{"sources", sourcesKept, i.Keeper.PruneSources},
			{"clusters", i.Retention.Clusters, i.forgetClusters},
		} {
			if step.age <= 0 {
				continue
			}
			n, err := step.do(ctx, now.Add(-step.age))
			if err != nil && ctx.Err() == nil {
				i.Logger.Warn("forgetting what is old, trying again later", "what", step.what, "error", err)
			}
			i.metrics.forgotten.WithLabelValues(step.what).Add(float64(n))
		}
	}
}

// forgetClusters deletes the clusters that had no connection since the time.
func (i *Ingester) forgetClusters(ctx context.Context, since time.Time) (n int64, err error) {
	unseen, err := i.Keeper.Unseen(ctx, since)
	if err != nil {
		return 0, err
	}
	for _, id := range unseen {
		err := i.Keeper.DeleteCluster(ctx, id)
		if errors.Is(err, synchronizer.ErrNotFound) {
			continue
		}
		if err != nil {
			return n, err
		}
		n++
		i.Logger.Info("a cluster that was not connected for long is forgotten", "account", id.Account, "cluster", id.Cluster)
	}
	return n, nil
}
