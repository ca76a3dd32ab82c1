// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"synchronizer"
)

var errStoreNotAsked = errors.New("the database has not answered yet")

// asksStore reports whether the process needs a store for clients' keys or for its
// API only. An ingester knows by itself whether its database answers.
func (b *Backend) asksStore() bool {
	return b.relay != nil && b.ingester == nil && b.config.ServerHasStore()
}

// storeReady is nil if the last answer was right.
func (b *Backend) storeReady() error {
	if !b.asksStore() {
		return nil
	}
	return b.database.ready(errStoreNotAsked)
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
		changed := b.database.answered(err)
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
