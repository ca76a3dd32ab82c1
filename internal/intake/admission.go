// SPDX-License-Identifier: Apache-2.0

package intake

import "sync"

// alerts is the resource for which slots are kept.
const alerts = "runtimealerts"

const (
	maxRequests = 10 // that read, parse or wait for the outlet
	maxOthers   = 8  // of these, other than alerts
)

// admission counts who is inside. Nobody waits: who finds no slot is told to
// come back.
type admission struct {
	mu            sync.Mutex
	total, others int
}

// enter takes a slot if one is left for the request; leave gives it back, once,
// however often it is called.
func (a *admission) enter(alert bool) (leave func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.total >= maxRequests || !alert && a.others >= maxOthers {
		return nil, false
	}
	a.add(alert, 1)
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.add(alert, -1)
	}), true
}

func (a *admission) add(alert bool, n int) {
	a.total += n
	if !alert {
		a.others += n
	}
}

// inside is how many slots are taken, and how many of them by others than alerts.
func (a *admission) inside() (total, others int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total, a.others
}
