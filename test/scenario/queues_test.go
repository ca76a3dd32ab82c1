// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"crypto/rand"
	"strings"
	"testing"

	"synchronizer/internal/config"
	"synchronizer/test/brokers"
)

// queueSetup chooses the queue of a backend, with topics that only one test uses.
type queueSetup func(*config.Config)

// queueSetups are the queues over which scenarios run.
var queueSetups = []struct {
	name  string
	setUp func(t *testing.T) queueSetup
}{
	{config.QueueEmbedded, func(*testing.T) queueSetup { return func(*config.Config) {} }},
	{config.QueueNATS, func(t *testing.T) queueSetup {
		broker := brokers.SharedNATS(t)
		return overNATS(broker.URL, fresh("test"))
	}},
	{config.QueueKafka, func(t *testing.T) queueSetup {
		broker := brokers.SharedKafka(t)
		return overKafka(broker.Plain, fresh("test"))
	}},
	{config.QueuePulsar, func(t *testing.T) queueSetup {
		broker := brokers.SharedPulsar(t)
		return overPulsar(broker.URL, broker.AdminURL, fresh("test"))
	}},
}

// fresh makes a name that nothing on a broker has.
func fresh(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()) }

func overNATS(url, prefix string) queueSetup {
	return func(c *config.Config) {
		c.Backend.MessageQueue.Type = config.QueueNATS
		c.Backend.MessageQueue.NATSConfig = &config.NATSConfig{Servers: []string{url}, Prefix: prefix, MaxBytes: 256 << 20}
	}
}

func overKafka(address, topics string) queueSetup {
	return func(c *config.Config) {
		c.Backend.MessageQueue.Type = config.QueueKafka
		c.Backend.MessageQueue.KafkaConfig = &config.KafkaConfig{
			BootstrapServers: []string{address}, ProducerTopic: topics + ".out", ConsumerTopic: topics + ".in",
			CompressionType: "zstd", MaxMessageBytes: 1 << 20, SecurityProtocol: "PLAINTEXT",
		}
	}
}

// overPulsar has both directions on one topic, as in the field.
func overPulsar(url, admin, namespace string) queueSetup {
	return func(c *config.Config) {
		c.Backend.PulsarConfig = &config.PulsarConfig{
			URL: url, AdminURL: admin, Tenant: "scenario", Namespace: namespace, Clusters: []string{brokers.PulsarCluster},
		}
	}
}

// overQueues runs a scenario over each queue.
func overQueues(t *testing.T, scenario func(t *testing.T, on queueSetup)) {
	over(t, func(string) bool { return true }, scenario)
}

// overBrokers runs a scenario of several processes: the embedded queue belongs to
// one.
func overBrokers(t *testing.T, scenario func(t *testing.T, on queueSetup)) {
	over(t, func(name string) bool { return name != config.QueueEmbedded }, scenario)
}

func over(t *testing.T, wanted func(name string) bool, scenario func(t *testing.T, on queueSetup)) {
	t.Parallel()
	for _, q := range queueSetups {
		if wanted(q.name) {
			t.Run(q.name, func(t *testing.T) {
				t.Parallel()
				scenario(t, q.setUp(t))
			})
		}
	}
}
