// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"synchronizer"
)

// askedStore is what the database last answered to a process that has one and no
// ingester: an ingester knows by itself. The zero value has not asked.
type askedStore struct {
	mu    sync.Mutex
	asked bool
	err   error
}

var errStoreNotAsked = errors.New("the database has not answered yet")

// asksStore reports whether the process needs a store for clients' keys or for its
// API only.
func (b *Backend) asksStore() bool {
	return b.relay != nil && b.ingester == nil && b.config.ServerHasStore()
}

// storeReady is nil if the last answer was right.
func (b *Backend) storeReady() error {
	if !b.asksStore() {
		return nil
	}
	b.database.mu.Lock()
	defer b.database.mu.Unlock()
	if !b.database.asked {
		return errStoreNotAsked
	}
	return b.database.err
}

// watchStore keeps Ready true of the database until ctx ends.
func (b *Backend) watchStore(ctx context.Context) error {
	if !b.asksStore() {
		return nil
	}
	tick := time.NewTicker(askBroker)
	defer tick.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, askBroker)
		err := b.store.Update(limited, func(synchronizer.Tx) error { return nil })
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			err = fmt.Errorf("asking the database: %w", err)
		}
		b.database.mu.Lock()
		changed := (b.database.err == nil) != (err == nil)
		b.database.asked, b.database.err = true, err
		b.database.mu.Unlock()
		switch {
		case changed && err != nil:
			b.process.Logger.Warn("not ready until the database answers", "error", err)
		case changed:
			b.process.Logger.Info("the database answers again")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
