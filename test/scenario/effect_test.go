// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/test/brokers"
)

// The tests of this file show that keys of the configuration reach the queue. What
// the queue does with them is tested beside it. internal/app/server/effect_test.go
// says which key is shown where.

// openServer opens a server on a queue and lets a test use it.
func openServer(t *testing.T, on queueSetup, use func(synchronizer.Queue)) error {
	t.Helper()
	return openServerIn(t.Context(), t, on, use)
}

func openServerIn(ctx context.Context, t *testing.T, on queueSetup, use func(synchronizer.Queue)) error {
	t.Helper()
	var variables config.Env
	dir := t.TempDir()
	for key, value := range map[string]string{
		"SYNCHRONIZER_BACKEND_DATADIR": dir, "SYNCHRONIZER_BACKEND_LISTEN": "127.0.0.1:0",
		"SYNCHRONIZER_API_LISTEN": "127.0.0.1:0", "SYNCHRONIZER_BACKEND_HEALTHPORT": "0",
	} {
		variables = variables.With(key, value)
	}
	c, _, err := config.LoadUp(variables)
	require.NoError(t, err)
	serverOnly(on)(c)
	b, err := server.Open(ctx, app.NewProcess(newLog(t, "server")), c)
	if err != nil {
		return err
	}
	require.NoError(t, b.Queue().(synchronizer.Reachable).Reachable(t.Context()))
	require.NoDirExists(t, filepath.Join(dir, "queue"), "the embedded queue is not used")
	if use != nil {
		use(b.Queue())
	}
	require.NoError(t, b.Close())
	return nil
}

// publish sends a record that compresses well.
func publish(t *testing.T, q synchronizer.Queue, to synchronizer.Direction) {
	t.Helper()
	require.NoError(t, q.Publish(t.Context(), to, []synchronizer.Record{{Key: "account/cluster", Payload: make([]byte, 4000)}}))
}

func TestEffectOfNATSKeys(t *testing.T) {
	t.Parallel()
	broker, prefix := brokers.SharedNATS(t), fresh("effect")
	on := func(change func(*config.NATSConfig)) queueSetup {
		return func(c *config.Config) {
			overNATS(broker.URL, prefix)(c)
			change(c.Backend.MessageQueue.NATSConfig)
		}
	}
	stream := func() jetstream.StreamConfig {
		connection, err := nats.Connect(broker.URL)
		require.NoError(t, err)
		defer connection.Close()
		js, err := jetstream.New(connection)
		require.NoError(t, err)
		s, err := js.Stream(t.Context(), prefix+"-out")
		require.NoError(t, err)
		return s.CachedInfo().Config
	}
	require.NoError(t, openServer(t, on(func(*config.NATSConfig) {}), nil))
	before := stream()
	require.EqualValues(t, 256<<20, before.MaxBytes)
	require.Zero(t, before.MaxAge)
	require.NoError(t, openServer(t, on(func(n *config.NATSConfig) {
		n.MaxBytes, n.MaxAge = 128<<20, config.Duration(time.Hour)
	}), nil))
	after := stream()
	require.EqualValues(t, 128<<20, after.MaxBytes)
	require.Equal(t, time.Hour, after.MaxAge)
	// One server cannot keep three; it goes on trying for a minute.
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	err := openServerIn(ctx, t, on(func(n *config.NATSConfig) { n.Prefix, n.Replicas = fresh("effect"), 3 }), nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestEffectOfNATSLogin(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		options     brokers.NATSOptions
		right       func(*brokers.NATS, *config.NATSConfig)
		withoutCert bool
	}{
		"password": {brokers.NATSOptions{Password: true}, func(_ *brokers.NATS, n *config.NATSConfig) {
			n.User, n.Password = brokers.NATSUser, config.Secret(brokers.NATSPassword)
		}, false},
		"token": {brokers.NATSOptions{Token: true}, func(_ *brokers.NATS, n *config.NATSConfig) {
			n.Token = config.Secret(brokers.NATSToken)
		}, false},
		"nkey":  {brokers.NATSOptions{NKey: true}, func(b *brokers.NATS, n *config.NATSConfig) { n.NKeyPath = b.NKeySeed }, false},
		"creds": {brokers.NATSOptions{Creds: true}, func(b *brokers.NATS, n *config.NATSConfig) { n.CredsPath = b.Creds }, false},
		"TLS": {brokers.NATSOptions{MTLS: true}, func(b *brokers.NATS, n *config.NATSConfig) {
			n.TLSCACertPath, n.TLSCertPath, n.TLSKeyPath = b.Certs.CA, b.Certs.ClientCert, b.Certs.ClientKey
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			broker := brokers.StartNATS(t, way.options)
			with := func(change func(*config.NATSConfig)) queueSetup {
				return func(c *config.Config) {
					overNATS(broker.URL, "synchronizer")(c)
					change(c.Backend.MessageQueue.NATSConfig)
				}
			}
			require.NoError(t, openServer(t, with(func(n *config.NATSConfig) { way.right(broker, n) }), nil))
			require.Error(t, openServer(t, with(func(*config.NATSConfig) {}), nil), "without the keys")
			if way.withoutCert {
				require.Error(t, openServer(t, with(func(n *config.NATSConfig) { n.TLSCACertPath = broker.Certs.CA }), nil), "with the authority only")
			}
		})
	}
}

func TestEffectOfKafkaKeys(t *testing.T) {
	t.Parallel()
	broker, topics := brokers.SharedKafka(t), fresh("effect")
	on := func(change func(*config.KafkaConfig)) queueSetup {
		return func(c *config.Config) {
			overKafka(broker.Plain, topics)(c)
			change(c.Backend.MessageQueue.KafkaConfig)
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Plain), kgo.ConsumeTopics(topics+".out", topics+".in"))
	require.NoError(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)

	err = openServer(t, on(func(k *config.KafkaConfig) { k.RequireTopicsExist = true }), nil)
	require.ErrorContains(t, err, "requireTopicsExist")
	require.NoError(t, openServer(t, on(func(k *config.KafkaConfig) { k.CompressionType = "none" }), func(q synchronizer.Queue) {
		publish(t, q, synchronizer.Out)
	}))
	require.NoError(t, openServer(t, on(func(k *config.KafkaConfig) { k.CompressionType, k.RequireTopicsExist = "gzip", true }), func(q synchronizer.Queue) {
		publish(t, q, synchronizer.In)
	}))
	compressed := map[string]bool{}
	for len(compressed) < 2 {
		fetches := client.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		for _, r := range fetches.Records() {
			compressed[r.Topic] = r.Attrs.CompressionType() != 0
		}
	}
	require.Equal(t, map[string]bool{topics + ".out": false, topics + ".in": true}, compressed)

	configs, err := admin.DescribeTopicConfigs(t.Context(), topics+".out")
	require.NoError(t, err)
	limits := map[string]string{}
	for _, c := range configs[0].Configs {
		limits[c.Key] = c.MaybeValue()
	}
	require.Equal(t, "1048576", limits["max.message.bytes"])
	err = openServer(t, on(func(k *config.KafkaConfig) { k.MaxMessageBytes = 2 << 20 }), nil)
	require.ErrorContains(t, err, "maxMessageBytes", "the topic takes less")
}

func TestEffectOfKafkaLogin(t *testing.T) {
	t.Parallel()
	broker := brokers.SharedKafka(t)
	on := func(address string, change func(*config.KafkaConfig)) queueSetup {
		return func(c *config.Config) {
			overKafka(address, fresh("effect"))(c)
			change(c.Backend.MessageQueue.KafkaConfig)
		}
	}
	require.NoError(t, openServer(t, on(broker.SASLTLS, func(k *config.KafkaConfig) {
		k.SecurityProtocol, k.SASLMechanism, k.TLSCACertPath = "SASL_SSL", "SCRAM-SHA-512", broker.Certs.CA
		k.SASLUsername, k.SASLPassword = brokers.KafkaUser, config.Secret(brokers.KafkaPassword)
	}), nil))
	require.NoError(t, openServer(t, on(broker.MTLS, func(k *config.KafkaConfig) {
		k.SecurityProtocol = "SSL"
		k.TLSCACertPath, k.TLSCertPath, k.TLSKeyPath = broker.Certs.CA, broker.Certs.ClientCert, broker.Certs.ClientKey
	}), nil))
}

func TestEffectOfPulsarKeys(t *testing.T) {
	t.Parallel()
	broker, namespace := brokers.SharedPulsar(t), fresh("effect")
	tenant := fresh("tenant")
	// A second cluster, that is not among the clusters of the configuration.
	broker.Admin(t, http.MethodPut, "clusters/elsewhere", `{"serviceUrl":"http://127.0.0.1:1","brokerServiceUrl":"pulsar://127.0.0.1:1"}`)
	require.NoError(t, openServer(t, func(c *config.Config) {
		overPulsar(broker.URL, broker.AdminURL, namespace)(c)
		c.Backend.PulsarConfig.Tenant = tenant
		c.Backend.ProducerTopic, c.Backend.ConsumerTopic = "from-clusters", "to-clusters"
	}, func(q synchronizer.Queue) {
		publish(t, q, synchronizer.Out)
		publish(t, q, synchronizer.In)
	}))
	list := broker.Admin(t, http.MethodGet, "persistent/"+tenant+"/"+namespace, "")
	require.Contains(t, list, "persistent://"+tenant+"/"+namespace+"/from-clusters")
	require.Contains(t, list, "persistent://"+tenant+"/"+namespace+"/to-clusters")
	require.Contains(t, broker.Admin(t, http.MethodGet, "tenants/"+tenant, ""), `"allowedClusters":["`+brokers.PulsarCluster+`"]`)
}

func TestEffectOfPulsarLogin(t *testing.T) {
	t.Parallel()
	broker := brokers.StartPulsar(t, brokers.PulsarOptions{Token: true, MTLS: true})
	on := func(admin string, change func(*config.PulsarConfig)) queueSetup {
		return func(c *config.Config) {
			overPulsar(broker.TLSURL, admin, "effect")(c)
			c.Backend.PulsarConfig.TLSCACertPath = broker.Certs.CA
			change(c.Backend.PulsarConfig)
		}
	}
	// The administrator makes tenant and namespaces, with the token of a file.
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(broker.Token(t, brokers.PulsarAdmin)), 0o600))
	require.NoError(t, openServer(t, on(broker.AdminURL, func(p *config.PulsarConfig) { p.TokenPath = file }), nil))
	for _, name := range []string{"effect", "effect-dlqs"} {
		for _, role := range []string{"app", brokers.PulsarClient} {
			broker.Admin(t, http.MethodPost, "namespaces/scenario/"+name+"/permissions/"+role, `["produce","consume"]`)
		}
	}
	require.NoError(t, openServer(t, on("", func(p *config.PulsarConfig) { p.Token = config.Secret(broker.Token(t, "app")) }), nil))
	require.NoError(t, openServer(t, on("", func(p *config.PulsarConfig) {
		p.TLSCertPath, p.TLSKeyPath = broker.Certs.ClientCert, broker.Certs.ClientKey
	}), nil))
}
