// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"synchronizer"
)

const (
	// recheckInterval is how often connections are looked at again. A key that was
	// revoked keeps no connection for 30 s, on any server: that is this, the look
	// itself, and closing them.
	recheckInterval = 15 * time.Second
	// recheckTimeout bounds one look at all of them.
	recheckTimeout = 10 * time.Second
	// closings is how many connections are closed at a time: each waits up to a
	// second for its client, and of 10,000 none may answer.
	closings = 2500

	statusPolicyViolation = 1008
)

// Rechecker is an Authenticator that can take back what it has agreed to.
type Rechecker interface {
	// Recheck gives, for each holder, nil or an error that wraps ErrUnauthorized and
	// says why it may no longer be connected. The error beside means that nothing
	// could be decided. Called by one goroutine, every 15 s.
	Recheck(ctx context.Context, holders []Holder) ([]error, error)
}

// Holder is a client that was let in: its cluster and the hash of its key
// (synchronizer.HashSecret), since the key itself is not kept.
type Holder struct {
	synchronizer.ClusterID
	Key [32]byte
}

// fewKeys is up to how many keys are looked up one by one.
const fewKeys = 200

// Recheck implements Rechecker. Each key is looked up once; many are found in the
// list of all, which costs a hundredth of that.
func (a AccessKeys) Recheck(ctx context.Context, holders []Holder) ([]error, error) {
	held := make(map[[32]byte]struct{}, len(holders))
	for _, holder := range holders {
		held[holder.Key] = struct{}{}
	}
	good, err := a.find(ctx, held)
	if err != nil {
		return nil, fmt.Errorf("reading access keys: %w", err)
	}
	result := make([]error, len(holders))
	for i, holder := range holders {
		if key, ok := good[holder.Key]; ok {
			result[i] = suits(key, holder.ClusterID)
		} else {
			result[i] = errUnknownKey
		}
	}
	return result, nil
}

// find gives those of the held keys that are good.
func (a AccessKeys) find(ctx context.Context, held map[[32]byte]struct{}) (map[[32]byte]synchronizer.AccessKey, error) {
	good := make(map[[32]byte]synchronizer.AccessKey, len(held))
	if a.Keys == nil || len(held) <= fewKeys {
		for hash := range held {
			key, err := a.Credentials.AccessKey(ctx, hash)
			if err == nil {
				good[hash] = key
			} else if !errors.Is(err, synchronizer.ErrNotFound) {
				return nil, err
			}
		}
		return good, nil
	}
	all, err := a.Keys.AccessKeys(ctx, "")
	if err != nil {
		return nil, err
	}
	listed := make(map[string]synchronizer.AccessKey, len(all))
	for i := range all {
		if all[i].Revoked.IsZero() {
			listed[all[i].ID] = all[i].AccessKey
		}
	}
	for hash := range held {
		if key, ok := listed[synchronizer.SecretID(hash)]; ok {
			good[hash] = key
		}
	}
	return good, nil
}

// recheckAll runs until ctx ends.
func (s *Server) recheckAll(ctx context.Context, r Rechecker) {
	ticker := time.NewTicker(recheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		// Who is connected stays so while nobody can decide: an outage of the store
		// must not become one of the fleet.
		if err := s.recheck(ctx, r); err != nil && ctx.Err() == nil {
			s.options.Logger.Warn("checking the keys of connected clients again: they stay connected", "error", err, "nextTry", recheckInterval)
		}
	}
}

// recheck closes the connections whose clients would no longer be let in.
func (s *Server) recheck(ctx context.Context, r Rechecker) error {
	ctx, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	open := s.registry.all()
	holders := make([]Holder, len(open))
	for i, c := range open {
		holders[i] = Holder{ClusterID: c.id(), Key: c.key}
	}
	refused, err := r.Recheck(ctx, holders)
	if err != nil {
		return err
	}
	if len(refused) != len(open) {
		return fmt.Errorf("%d answers about %d clients", len(refused), len(open))
	}
	var g errgroup.Group
	g.SetLimit(closings)
	for i, c := range open {
		if refused[i] == nil {
			continue
		}
		s.options.Logger.Warn("client may no longer be connected: closing its connection",
			"account", c.id().Account, "cluster", c.id().Cluster, "connection", c.source, "reason", refused[i])
		s.metrics.revoked.Inc()
		g.Go(func() error { return c.link.Close(statusPolicyViolation, "access key revoked") })
	}
	return g.Wait()
}

// all gives every open connection.
func (r *registry) all() []*connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	var open []*connection
	for _, p := range r.clusters {
		open = append(open, p.open...)
	}
	return open
}
