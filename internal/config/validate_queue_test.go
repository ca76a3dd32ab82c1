// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each rule on the section of a queue, by what it says of a file that breaks it.
func TestQueueSections(t *testing.T) {
	for _, test := range []struct {
		name, backend string
		want          []string
	}{
		{"kafka that is right", `"messageQueue":{"type":"kafka","kafkaConfig":{"bootstrapServers":"a:9092,b:9092"}}`, nil},
		{"kafka with SCRAM and without TLS", `"messageQueue":{"type":"kafka","kafkaConfig":{"bootstrapServers":["a:1"],"securityProtocol":"SASL_PLAINTEXT","saslMechanism":"SCRAM-SHA-256","saslUsername":"u","saslPassword":"hunter2"}}`, nil},
		{"kafka without anything", `"messageQueue":{"type":"kafka","kafkaConfig":{}}`, []string{
			`backend.messageQueue.kafkaConfig.bootstrapServers: missing: list them like ["127.0.0.1:9092"]`,
		}},
		{"kafka with everything wrong", `"messageQueue":{"type":"kafka","encoding":"avro","kafkaConfig":{"bootstrapServers":["a"],"producerTopic":"t","consumerTopic":"t","compressionType":"brotli",
"maxMessageBytes":0,"securityProtocol":"TLS","saslMechanism":"GSSAPI","tlsCertPath":"/absent/c"}}`, []string{
			`backend.messageQueue.encoding: unknown value "avro": use field or compact`,
			`backend.messageQueue.kafkaConfig.compressionType: unknown value "brotli": use none, gzip, snappy, lz4 or zstd`,
			`backend.messageQueue.kafkaConfig.maxMessageBytes: must be 1 or more`,
			`backend.messageQueue.kafkaConfig.securityProtocol: unknown value "TLS": use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL`,
			`backend.messageQueue.kafkaConfig.saslMechanism: unknown value "GSSAPI": use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512`,
			`backend.messageQueue.kafkaConfig.bootstrapServers[0]: "a" is not host:port`,
			`backend.messageQueue.kafkaConfig.consumerTopic: is the same topic as producerTopic: the server would read what it writes`,
			`backend.messageQueue.kafkaConfig.saslMechanism: needs securityProtocol SASL_SSL or SASL_PLAINTEXT; it is TLS`,
			`backend.messageQueue.kafkaConfig.tlsCertPath: has no effect without TLS: use securityProtocol SSL or SASL_SSL`,
			`backend.messageQueue.kafkaConfig.tlsCertPath: tlsCertPath and tlsKeyPath belong together`,
		}},
		{"kafka with SASL fields without SASL", `"messageQueue":{"type":"kafka","kafkaConfig":{"bootstrapServers":["a:1"],"saslMechanism":"PLAIN","saslUsername":"u","saslPassword":"hunter2","tlsCaCertPath":"/absent/ca"}}`, []string{
			`backend.messageQueue.kafkaConfig.saslMechanism: needs securityProtocol SASL_SSL or SASL_PLAINTEXT; it is PLAINTEXT`,
			`backend.messageQueue.kafkaConfig.saslUsername: needs securityProtocol SASL_SSL or SASL_PLAINTEXT; it is PLAINTEXT`,
			`backend.messageQueue.kafkaConfig.saslPassword: needs securityProtocol SASL_SSL or SASL_PLAINTEXT; it is PLAINTEXT`,
			`backend.messageQueue.kafkaConfig.tlsCaCertPath: has no effect without TLS: use securityProtocol SSL or SASL_SSL`,
		}},
		{"kafka with PLAIN in the clear", `"messageQueue":{"type":"kafka","kafkaConfig":{"bootstrapServers":["a:1"],"securityProtocol":"SASL_PLAINTEXT","saslMechanism":"PLAIN"}}`, []string{
			`backend.messageQueue.kafkaConfig.saslMechanism: PLAIN would send the password in the clear: use securityProtocol SASL_SSL`,
			`backend.messageQueue.kafkaConfig.saslUsername: missing: securityProtocol SASL_PLAINTEXT needs it`,
			`backend.messageQueue.kafkaConfig.saslPassword: missing: securityProtocol SASL_PLAINTEXT needs it`,
		}},
		{"kafka with SASL and no mechanism", `"messageQueue":{"type":"kafka","kafkaConfig":{"bootstrapServers":["a:1"],"securityProtocol":"SASL_SSL","saslUsername":"u","saslPassword":"hunter2","tlsCaCertPath":"/absent/ca"}}`, []string{
			`backend.messageQueue.kafkaConfig.saslMechanism: missing: securityProtocol SASL_SSL needs PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512`,
			`backend.messageQueue.kafkaConfig.tlsCaCertPath: cannot be read: open /absent/ca: no such file or directory`,
		}},
		{"nats that is right", `"messageQueue":{"type":"nats","natsConfig":{"servers":"nats://a:4222,tls://b:4222","user":"u","password":"hunter2"}}`, nil},
		{"nats without a section", `"messageQueue":{"type":"nats"}`, []string{`backend.messageQueue.natsConfig: missing: messageQueue.type is nats`}},
		{"nats with everything wrong", `"messageQueue":{"type":"nats","natsConfig":{"servers":["a:4222","nats://u:hunter2@h:4222"],"prefix":"a.b","replicas":7,"user":"u","token":"hunter2","nkeyPath":"/absent/n"}}`, []string{
			`backend.messageQueue.natsConfig.servers[0]: is not an address: write it like nats://127.0.0.1:4222`,
			`backend.messageQueue.natsConfig.servers[1]: "nats://[redacted]@h:4222" must not contain a password: there are keys for that`,
			`backend.messageQueue.natsConfig.prefix: "a.b" must be one token of a subject: no dots, blanks, slashes or wildcards`,
			`backend.messageQueue.natsConfig.replicas: must be at most 5`,
			`backend.messageQueue.natsConfig: user, token, nkeyPath are different ways to log in: keep one`,
			`backend.messageQueue.natsConfig.user: user and password belong together`,
			`backend.messageQueue.natsConfig.nkeyPath: cannot be read: open /absent/n: no such file or directory`,
		}},
		{"pulsar in its older form", `"pulsarConfig":{"url":"pulsar+ssl://h:6651","adminUrl":"http://h:8080","token":"hunter2"}`, nil},
		{"pulsar without a section", `"messageQueue":{"type":"pulsar"}`, []string{`backend.pulsarConfig: missing: messageQueue.type is pulsar`}},
		{"pulsar with everything wrong", `"producerTopic":"","consumerTopic":"persistent://a/b/c","pulsarConfig":{"url":"http://h","adminUrl":"h","tenant":"a/b","token":"hunter2","tokenPath":"/absent/t","tlsCaCertPath":"/absent/ca","maxDeliveryAttempts":-1}`, []string{
			`backend.pulsarConfig.maxDeliveryAttempts: must not be negative`,
			`backend.pulsarConfig.url: "http://h" must begin with pulsar:// or pulsar+ssl://`,
			`backend.pulsarConfig.adminUrl: is not an address: write it like http://127.0.0.1:8081`,
			`backend.pulsarConfig.tenant: "a/b" must be a plain name, without slashes`,
			`backend.producerTopic: must not be empty`,
			`backend.consumerTopic: "persistent://a/b/c" must be a plain name, without slashes`,
			`backend.pulsarConfig.tokenPath: the token is given twice: remove token or tokenPath`,
			`backend.pulsarConfig.tokenPath: cannot be read: open /absent/t: no such file or directory`,
			`backend.pulsarConfig.tlsCaCertPath: has no effect without TLS: use a pulsar+ssl:// address in url`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := folder(t, "config.json", fmt.Sprintf(`{"backend":{"listen":"127.0.0.1:0",%s}}`, test.backend))
			_, _, err := load(variables(dir), RoleServer)
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			var problems Problems
			require.ErrorAs(t, err, &problems)
			got := make([]string, len(problems))
			for i, p := range problems {
				got[i] = p.Path + ": " + p.Message
			}
			require.Equal(t, test.want, got)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

// The defaults of each queue's section are those of the field.
func TestQueueDefaults(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, nil, 0o600))
	c, _, err := LoadServer(variables(folder(t, "config.json", fmt.Sprintf(`{"backend":{"listen":"127.0.0.1:0",
"messageQueue":{"type":"kafka","kafkaConfig":{"bootstrapServers":["a:1"],"securityProtocol":"SSL","tlsCaCertPath":%q}},"pulsarConfig":{"url":"pulsar://h"}}}`, ca))))
	require.NoError(t, err)
	kafka := c.Backend.MessageQueue.KafkaConfig
	require.Equal(t, "armo.kubescape.synchronizer.out", kafka.ProducerTopic)
	require.Equal(t, "armo.kubescape.synchronizer.in", kafka.ConsumerTopic)
	require.Equal(t, "zstd", kafka.CompressionType)
	require.EqualValues(t, 64<<20, kafka.MaxMessageBytes)
	require.Equal(t, []string{"public", "default", "synchronizer", "synchronizer"},
		[]string{c.Backend.PulsarConfig.Tenant, c.Backend.PulsarConfig.Namespace, c.Backend.ProducerTopic, c.Backend.ConsumerTopic})
	require.Equal(t, QueueKafka, c.Backend.QueueType())
	require.False(t, c.IngesterEnabled(), "others can read the queue")
}
