// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"

	"synchronizer/internal/link"
	"synchronizer/internal/relay"
)

// upwardBytes is what is read from one client and not yet confirmed.
const upwardBytes = 4 << 20

func (b *Backend) wireRelay() error {
	c, p := b.config, b.process
	authenticator, err := b.authenticator()
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		name = "synchronizer-server"
	}
	reg := p.Registerer("server")
	frames, err := link.NewMetrics(reg)
	if err != nil {
		return err
	}
	after, _ := c.Backend.ReconciliationTask.ReconcileAfterConnectSeconds.Duration() // what does not fit was set to 0
	b.relay = relay.New(relay.Options{
		Queue: b.queue.Queue, QueueName: b.queue.name, Encoding: b.queue.encoding,
		Authenticator: authenticator,
		Link: link.Options{
			Limits: link.Limits{MaxMessageBytes: int(c.InCluster.MaxObjectBytes)},
			Drop:   p.Drops.Drop, Metrics: frames,
		},
		ServerName:  name,
		UpwardBytes: upwardBytes, BacklogBytes: int(c.Backend.ClientBacklogBytes),
		MaxObjectSize: c.Process.MaxObjectSize, ReconcileAfter: after,
		Logger: p.Logger, Registerer: reg, Drop: p.Drops.Drop,
	})
	return nil
}
