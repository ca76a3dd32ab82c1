// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"

	"synchronizer/internal/config"
)

// queueSetup chooses the queue of a backend, with topics that only one test uses.
type queueSetup func(*config.Config)

// queueSetups are the queues over which scenarios run.
var queueSetups = []struct {
	name  string
	setUp func(t *testing.T) queueSetup
}{
	{config.QueueEmbedded, func(*testing.T) queueSetup { return func(*config.Config) {} }},
}

// overQueues runs a scenario over each queue.
func overQueues(t *testing.T, scenario func(t *testing.T, on queueSetup)) {
	t.Parallel()
	for _, q := range queueSetups {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			scenario(t, q.setUp(t))
		})
	}
}
