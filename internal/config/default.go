// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"synchronizer"
)

const (
	mib = 1 << 20

	defaultDedupTTLSeconds  = 600
	defaultDedupMessages    = 10000
	defaultReplayTTLSeconds = 300
	defaultReplayMessages   = 10000
	defaultReplayPerClient  = 100
	defaultReplayBytes      = 64 * mib
)

// Default returns the configuration that an empty file gives. Optional sections
// (httpEndpoint, pulsarConfig, kafkaConfig, natsConfig) are absent in it; their defaults
// apply as soon as a file has the section.
func Default() *Config {
	return &Config{
		InCluster: InCluster{
			IncludeNamespaces:  []string{},
			ExcludeNamespaces:  []string{},
			Deduplication:      Deduplication{TTLSeconds: defaultDedupTTLSeconds, MaxMessages: defaultDedupMessages},
			Resources:          []Resource{},
			CoalesceWindow:     Duration(time.Second),
			BaselineCacheBytes: 32 * mib,
			WindowBytes:        16 * mib,
			MaxObjectBytes:     64 * mib,
			HealthPort:         7888,
			SpoolMaxBytes:      256 * mib,
			Policy:             []PolicyRule{},
		},
		Backend: Backend{
			Port:       8080,
			HealthPort: 7888,
			DataDir:    "data",
			AuthenticationServer: AuthenticationServer{
				HeaderToQueryParamMapping: map[string]string{},
				HeaderToHeaderMapping:     map[string]string{},
			},
			LinkV2:             "auto",
			ClientBacklogBytes: 16 * mib,
			ProducerTopic:      defaultPulsarTopic,
			ConsumerTopic:      defaultPulsarTopic,
			ConsumerWorkers:    10,
			MessageQueue:       MessageQueue{Embedded: EmbeddedQueue{MaxBytes: 1024 * mib, MaxAge: Duration(7 * 24 * time.Hour)}},
			SkipAlertsFrom:     []string{},
			FeaturesProvider:   FeaturesProvider{RefreshIntervalSeconds: 3600},
			Replay: Replay{
				TTLSeconds:           defaultReplayTTLSeconds,
				MaxMessages:          defaultReplayMessages,
				MaxMessagesPerClient: defaultReplayPerClient,
				MaxBytes:             defaultReplayBytes,
			},
		},
		Ingester: Ingester{
			Group:               "synchronizer-ingester",
			Subscription:        "synchronizer-ingester",
			Workers:             1,
			BatchMax:            500,
			V1Kinds:             []string{},
			EventKinds:          []string{},
			TombstoneTTL:        Duration(24 * time.Hour),
			EventTTL:            Duration(720 * time.Hour),
			MaxDeliveryAttempts: 20,
		},
		API: API{Listen: "127.0.0.1:8090"},
	}
}

// defaultPulsarTopic is the topic of both directions in the field's files.
const defaultPulsarTopic = "synchronizer"

// setDefaults gives an optional section its defaults when a file has it.
func (h *HTTPEndpoint) setDefaults() { *h = HTTPEndpoint{ServerPort: 8089, Resources: []Resource{}} }

func (p *PulsarConfig) setDefaults() {
	*p = PulsarConfig{Tenant: "public", Namespace: "default", Clusters: []string{}}
}

func (k *KafkaConfig) setDefaults() {
	*k = KafkaConfig{
		BootstrapServers: []string{},
		ProducerTopic:    "armo.kubescape.synchronizer.out",
		ConsumerTopic:    "armo.kubescape.synchronizer.in",
		CompressionType:  "zstd",
		MaxMessageBytes:  64 * mib,
		SecurityProtocol: "PLAINTEXT",
	}
}

func (n *NATSConfig) setDefaults() {
	*n = NATSConfig{
		Servers: []string{}, Prefix: "synchronizer",
		MaxBytes: 1024 * mib, MaxAge: Duration(7 * 24 * time.Hour),
	}
}

// ListenAddress is the address on which the server waits for clients: backend.listen, else
// backend.port on all interfaces.
func (b *Backend) ListenAddress() string {
	if b.Listen != "" {
		return b.Listen
	}
	return net.JoinHostPort("", strconv.Itoa(b.Port))
}

// QueueType is the queue that the configuration chooses: backend.messageQueue.type, else
// pulsar when there is a pulsarConfig, else embedded.
func (b *Backend) QueueType() string {
	switch {
	case b.MessageQueue.Type != "":
		return b.MessageQueue.Type
	case b.PulsarConfig != nil:
		return QueuePulsar
	default:
		return QueueEmbedded
	}
}

// IngesterEnabled says whether the server also ingests: ingester.enabled, else only with
// the embedded queue, which no other process can read.
func (c *Config) IngesterEnabled() bool {
	if c.Ingester.Enabled != nil {
		return *c.Ingester.Enabled
	}
	return c.Backend.QueueType() == QueueEmbedded
}

// ServerHasStore says whether the server opens the store, and with it the API: to ingest, for
// access keys, or because it is one that processes can share.
func (c *Config) ServerHasStore() bool {
	return c.IngesterEnabled() || c.Backend.AccessKeys == AccessKeysStore || c.Store.Postgres.URL.Reveal() != ""
}

// QueueEncoding is backend.messageQueue.encoding, else "field" where others may read the records.
func (c *Config) QueueEncoding() string {
	switch queue := c.Backend.QueueType(); {
	case c.Backend.MessageQueue.Encoding != "":
		return c.Backend.MessageQueue.Encoding
	case queue == QueueKafka || queue == QueuePulsar:
		return "field"
	default:
		return "compact"
	}
}

// IngesterGroup is the name by which ingesters of this backend share the work: ingester.group,
// on Pulsar ingester.subscription.
func (c *Config) IngesterGroup() string {
	if c.Backend.QueueType() == QueuePulsar {
		return c.Ingester.Subscription
	}
	return c.Ingester.Group
}

// Kinds are ingester.v1Kinds; none when the key is empty. Validation has refused those that
// cannot be read.
func (i *Ingester) Kinds() ([]synchronizer.Kind, error) {
	return parseKinds("ingester.v1Kinds", i.V1Kinds)
}

// Events are ingester.eventKinds in the same way.
func (i *Ingester) Events() ([]synchronizer.Kind, error) {
	return parseKinds("ingester.eventKinds", i.EventKinds)
}

func parseKinds(path string, texts []string) ([]synchronizer.Kind, error) {
	kinds := make([]synchronizer.Kind, len(texts))
	for n, text := range texts {
		var err error
		if kinds[n], err = synchronizer.ParseKind(text); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	return kinds, nil
}

// SQLitePath is the database file: store.sqlite.path, else synchronizer.db in the data directory.
func (c *Config) SQLitePath() string {
	if c.Store.SQLite.Path != "" {
		return c.Store.SQLite.Path
	}
	return filepath.Join(c.Backend.DataDir, "synchronizer.db")
}

// QueuePath is the folder of the embedded queue: backend.messageQueue.embedded.path, else
// queue in the data directory.
func (c *Config) QueuePath() string {
	if c.Backend.MessageQueue.Embedded.Path != "" {
		return c.Backend.MessageQueue.Embedded.Path
	}
	return filepath.Join(c.Backend.DataDir, "queue")
}
