// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/queue"
	"synchronizer/internal/queue/chunk"
	"synchronizer/internal/queue/kafka"
	"synchronizer/internal/queue/nats"
	"synchronizer/internal/queue/pulsar"
)

// openedQueue is a queue and how records on it are written.
type openedQueue struct {
	synchronizer.Queue
	name     string // for metrics: a value of backend.messageQueue.type
	encoding queue.Encoding
}

// Queue is the backend's own, for what runs in its process and speaks to clusters
// as another producer on the queue would. It ends with Run.
func (b *Backend) Queue() synchronizer.Queue { return b.queue.Queue }

// openQueue opens the queue that backend.messageQueue chooses. understood says
// whether a record for a direction may be sent in parts; nil: always.
func openQueue(ctx context.Context, p *app.Process, c *config.Config, understood func(synchronizer.Direction) bool) (openedQueue, error) {
	o := openedQueue{name: c.Backend.QueueType()}
	var err error
	if o.encoding, err = queue.ParseEncoding(c.QueueEncoding()); err != nil {
		return o, err
	}
	switch o.name {
	case config.QueueEmbedded:
		o.Queue, err = openEmbedded(ctx, p, c)
	case config.QueueNATS:
		o.Queue, err = openNATS(ctx, p, c)
	case config.QueuePulsar:
		o.Queue, err = openPulsar(ctx, p, c)
	case config.QueueKafka:
		o.Queue, err = openKafka(ctx, p, c, understood)
	default:
		err = fmt.Errorf("%w: backend.messageQueue.type %q is not known", synchronizer.ErrInvalid, o.name)
	}
	if err != nil {
		return openedQueue{}, err // a nil pointer of an adapter in the interface would not be nil
	}
	o.Queue = p.Tracer.Queue(o.Queue, o.name)
	return o, nil
}

func openEmbedded(ctx context.Context, p *app.Process, c *config.Config) (synchronizer.Queue, error) {
	e := c.Backend.MessageQueue.Embedded
	return nats.OpenEmbedded(ctx, nats.EmbeddedConfig{
		Dir: c.QueuePath(), MaxBytes: e.MaxBytes, MaxAge: time.Duration(e.MaxAge), Logger: p.Logger,
	})
}

// openNATS needs no care for who reads: all who use NATS are of this project.
func openNATS(ctx context.Context, p *app.Process, c *config.Config) (synchronizer.Queue, error) {
	n := c.Backend.MessageQueue.NATSConfig
	q, err := nats.Open(ctx, nats.Config{
		URLs: n.Servers, Prefix: n.Prefix,
		Username: n.User, Password: n.Password.Reveal(), Token: n.Token.Reveal(), NKeySeedFile: n.NKeyPath, CredsFile: n.CredsPath,
		TLS:      nats.TLS{CAFile: n.TLSCACertPath, CertFile: n.TLSCertPath, KeyFile: n.TLSKeyPath},
		Replicas: n.Replicas, MaxBytes: n.MaxBytes, MaxAge: time.Duration(n.MaxAge), Logger: p.Logger,
	})
	if err != nil {
		return nil, err
	}
	return chunk.New(q, chunk.Options{MaxRecord: q.MaxPayload(), Size: q.RecordSize, Drop: p.Drops.Drop, Logger: p.Logger}), nil
}

func openPulsar(ctx context.Context, p *app.Process, c *config.Config) (synchronizer.Queue, error) {
	b := c.Backend.PulsarConfig
	return pulsar.Open(ctx, pulsar.Config{
		URL: b.URL, AdminURL: b.AdminURL, Tenant: b.Tenant, Namespace: b.Namespace, Clusters: b.Clusters,
		OutTopic: c.Backend.ProducerTopic, InTopic: c.Backend.ConsumerTopic, Subscription: c.Ingester.Subscription,
		Token: b.Token.Reveal(), TokenFile: b.TokenPath,
		CAFile: b.TLSCACertPath, CertFile: b.TLSCertPath, KeyFile: b.TLSKeyPath, Logger: p.Logger,
	})
}

// partOverhead is what a record takes on Kafka beside what package chunk counts.
const partOverhead = 256

// smallestPart lets a record with its properties be split at all.
const smallestPart = 4 << 10

func openKafka(ctx context.Context, p *app.Process, c *config.Config, understood func(synchronizer.Direction) bool) (synchronizer.Queue, error) {
	k := c.Backend.MessageQueue.KafkaConfig
	q, err := kafka.Open(ctx, kafka.Config{
		BootstrapServers: k.BootstrapServers, OutTopic: k.ProducerTopic, InTopic: k.ConsumerTopic,
		RequireTopicsExist: k.RequireTopicsExist, Compression: k.CompressionType, MaxMessageBytes: int(k.MaxMessageBytes),
		TLS: strings.HasSuffix(k.SecurityProtocol, "SSL"), CAFile: k.TLSCACertPath, CertFile: k.TLSCertPath, KeyFile: k.TLSKeyPath,
		SASLMechanism: k.SASLMechanism, SASLUser: k.SASLUsername, SASLPassword: k.SASLPassword.Reveal(), Logger: p.Logger,
	})
	if err != nil {
		return nil, err
	}
	return chunk.New(q, chunk.Options{
		MaxRecord: max(int(k.MaxMessageBytes)-partOverhead, smallestPart), Allowed: understood, Drop: p.Drops.Drop, Logger: p.Logger,
	}), nil
}
