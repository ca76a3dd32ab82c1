// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"time"

	"synchronizer/internal/config"
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
	o := relay.Options{
		Queue: b.queue.Queue, QueueName: b.queue.name, Encoding: b.queue.encoding,
		Authenticator: authenticator,
		Link: link.Options{
			Limits: link.Limits{MaxMessageBytes: int(c.InCluster.MaxObjectBytes)},
			Drop:   p.Drops.Drop, Metrics: frames, Wrap: p.Tracer.Accepted,
		},
		ServerName:    name,
		UpwardBytes:   upwardBytes,
		MaxObjectSize: c.Process.MaxObjectSize, SkipAlertsFrom: c.Backend.SkipAlertsFrom,
		Logger: p.Logger, Registerer: p.Registry, Drop: p.Drops.Drop, // no label role on the names of the field
	}
	schedules(&c.Backend, &o)
	handing(&c.Backend, &o)
	o.Features = b.features()
	b.relay = relay.New(o)
	return nil
}

// schedules sets when the relay does something by itself.
func schedules(b *config.Backend, o *relay.Options) {
	task := &b.ReconciliationTask
	o.ReconcileAfter = span(task.ReconcileAfterConnectSeconds)
	o.KeepAlive = span(b.KeepAliveTask.TaskIntervalSeconds)
	o.Periodic = relay.Periodic{
		Every:  span(task.TaskIntervalSeconds),
		MinAge: span(task.IntervalFromConnectionSeconds),
		Batch:  task.SendBatch,
	}
	if cron := task.Cron(); cron != nil {
		o.Periodic.Cron = cron
	}
}

// handing sets how what is read from the queue reaches clients.
func handing(b *config.Backend, o *relay.Options) {
	o.Workers, o.BacklogBytes, o.Replay = b.ConsumerWorkers, int(b.ClientBacklogBytes), replayOf(&b.Replay)
}

// span converts; what is negative or does not fit is 0, which is off.
func span(s config.Seconds) time.Duration {
	d, _ := s.Duration()
	return d
}

// features is the gate of runtime alerts, nil when there is none or nobody to ask.
func (b *Backend) features() *relay.Features {
	f := &b.config.Backend.FeaturesProvider
	if f.FeatureFlagName == "" || b.authentication == nil {
		return nil
	}
	refresh := span(f.RefreshIntervalSeconds)
	if refresh <= 0 {
		refresh = span(config.Default().Backend.FeaturesProvider.RefreshIntervalSeconds)
	}
	return relay.NewFeatures(b.authentication, f.FeatureFlagName, refresh, b.process.Logger)
}
