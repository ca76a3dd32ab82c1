// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
	"synchronizer/internal/queue/queuetest"
	"synchronizer/test/brokers"
)

func TestMain(m *testing.M) { os.Exit(brokers.Main(m)) }

var prefixes atomic.Int64

// topics makes names that no other test has.
func (c Config) withTopics() Config {
	prefix := fmt.Sprintf("test%d", prefixes.Add(1))
	c.OutTopic, c.InTopic, c.DeadLetterTopic = prefix+".out", prefix+".in", prefix+".dead-letter"
	return c
}

// testConfig is that of a queue of its own on a broker.
func testConfig(t testing.TB, address string) Config {
	return Config{
		BootstrapServers: []string{address},
		Partitions:       4,
		MaxMessageBytes:  24 << 20,
		StartRetries:     3,
		StartPause:       10 * time.Millisecond,
		Logger:           slog.New(slog.NewTextHandler(t.Output(), nil)),
		heartbeat:        100 * time.Millisecond,
		session:          6 * time.Second, // the least that the broker allows
		handover:         time.Second,
	}.withTopics()
}

func mustOpen(t testing.TB, config Config) *Queue {
	t.Helper()
	q, err := Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { shut(t, q) })
	return q
}

func shut(t testing.TB, q *Queue) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	require.NoError(t, q.Close(ctx))
}

// admin is a client of a test's own.
func admin(t testing.TB, address string) *kadm.Client {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// limited bounds a step that must end by itself.
func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func opener(config Config) queuetest.Open {
	return func(t *testing.T) synchronizer.Queue {
		q, err := Open(t.Context(), config)
		require.NoError(t, err)
		return q
	}
}

// disturbed is a broker of a test's own.
type disturbed struct {
	*brokers.Kafka
	config Config
}

func (d *disturbed) Open(t *testing.T) synchronizer.Queue { return opener(d.config)(t) }
func (d *disturbed) Stop(t *testing.T)                    { d.Kafka.Stop(t) }
func (d *disturbed) Kill(t *testing.T)                    { d.Kafka.Kill(t) }
func (d *disturbed) Start(t *testing.T)                   { d.Kafka.Start(t) }

func TestContract(t *testing.T) {
	k := brokers.SharedKafka(t)
	queuetest.Run(t, queuetest.Factory{
		Name:    "kafka",
		Version: "Apache Kafka 4.4.0",
		New: func(t *testing.T) queuetest.Open {
			return opener(testConfig(t, k.Plain))
		},
		MaxPayload: 24 << 20,
		Patience:   60 * time.Second,
		Broker: func(t *testing.T) queuetest.Broker {
			own := brokers.DisturbKafka(t)
			return &disturbed{own, testConfig(t, own.Plain)}
		},
		Ways: ways(t, k),
		Absent: func(t *testing.T) error {
			_, err := Open(t.Context(), testConfig(t, "127.0.0.1:1"))
			return err
		},
		MissingTopic: func(t *testing.T) error {
			config := testConfig(t, k.Plain)
			config.RequireTopicsExist = true
			_, err := Open(t.Context(), config)
			return err
		},
		Leftovers: func(t *testing.T) []string {
			groups, err := admin(t, k.Plain).ListGroups(t.Context())
			require.NoError(t, err)
			return slices.DeleteFunc(groups.Groups(), func(g string) bool {
				// Those of tests of this package, and the suite's with its separator.
				return strings.HasPrefix(g, queuetest.Group) || strings.HasPrefix(g, "group")
			})
		},
		Chunks: &queuetest.ChunkFactory{
			New: func(t *testing.T) queuetest.Open {
				config := testConfig(t, k.Plain)
				config.MaxMessageBytes = 1 << 20
				return opener(config)
			},
			MaxRecord: 1 << 20,
		},
	})
}

// ways are all ways into the broker; none shares topics with another.
func ways(t *testing.T, k *brokers.Kafka) []queuetest.Way {
	way := func(name, address string, right func(*Config), wrong func(*Config)) queuetest.Way {
		w := queuetest.Way{Name: name, Secrets: []string{brokers.KafkaPassword, "not-the-password"}}
		open := func(t *testing.T, change ...func(*Config)) (*Queue, error) {
			config := testConfig(t, address)
			for _, c := range change {
				c(&config)
			}
			return Open(t.Context(), config)
		}
		w.Open = func(t *testing.T) (synchronizer.Queue, error) {
			q, err := open(t, right)
			if err != nil {
				return nil, err
			}
			return q, nil
		}
		if wrong != nil {
			w.Wrong = func(t *testing.T) error {
				_, err := open(t, right, wrong)
				return err
			}
		}
		return w
	}
	tls := func(c *Config) { c.TLS, c.CAFile = true, k.Certs.CA }
	otherCA := func(c *Config) { c.CAFile = k.Certs.OtherCA }
	wrongPassword := func(c *Config) { c.SASLPassword = "not-the-password" }
	all := []queuetest.Way{
		way("plain", k.Plain, func(*Config) {}, nil),
		way("TLS", k.TLS, tls, otherCA),
		way("mTLS", k.MTLS, func(c *Config) {
			tls(c)
			c.CertFile, c.KeyFile = k.Certs.ClientCert, k.Certs.ClientKey
		}, func(c *Config) { c.CertFile, c.KeyFile = k.Certs.OtherCert, k.Certs.OtherKey }),
	}
	for _, mechanism := range []string{PLAIN, SCRAMSHA256, SCRAMSHA512} {
		sasl := func(c *Config) {
			c.SASLMechanism, c.SASLUser, c.SASLPassword = mechanism, brokers.KafkaUser, brokers.KafkaPassword
		}
		both := func(c *Config) {
			tls(c)
			sasl(c)
		}
		all = append(all,
			way(mechanism, k.SASL, sasl, wrongPassword),
			way(mechanism+" with TLS", k.SASLTLS, both, wrongPassword),
			way(mechanism+" with another CA", k.SASLTLS, both, otherCA))
	}
	return all
}
