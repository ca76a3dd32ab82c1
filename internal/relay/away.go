// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"sync"

	"synchronizer"
)

var errAway = errors.New("the queue takes no records just now")

// away knows whether the queue is: then publishing has run into its limit of time and
// nothing was taken since. Of the clients that want to connect meanwhile one finds out
// whether that is over, and the others need not wait for it.
type away struct {
	mu     sync.Mutex
	away   bool
	asking bool // one waits for the queue
}

// learn is told how publishing within ctx has ended.
func (a *away) learn(ctx context.Context, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, synchronizer.ErrTooLarge):
		a.away = false
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.away = true
	}
}

// enter is called before a client is introduced to the queue, and done after it.
func (a *away) enter() (done func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.away {
		return func() {}, nil
	}
	if a.asking {
		return nil, errAway
	}
	a.asking = true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asking = false
	}, nil
}
