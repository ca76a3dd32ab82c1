// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"synchronizer"
	"synchronizer/test/brokers"
)

// settingOf is the value of a topic's setting.
func settingOf(t *testing.T, address, topic, key string) string {
	t.Helper()
	configs, err := admin(t, address).DescribeTopicConfigs(limited(t), topic)
	require.NoError(t, err)
	for _, setting := range configs[0].Configs {
		if setting.Key == key {
			return setting.MaybeValue()
		}
	}
	return ""
}

func TestTopicsAreCreated(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	config.Partitions = 3
	config.DeadLetterTopic = ""
	mustOpen(t, config)
	details, err := admin(t, k.Plain).ListTopics(limited(t), config.OutTopic, config.InTopic, config.OutTopic+"-dlq")
	require.NoError(t, err)
	require.NoError(t, details.Error())
	for topic, d := range details {
		require.Len(t, d.Partitions, 3, topic)
		require.Equal(t, strconv.Itoa(config.MaxMessageBytes), settingOf(t, k.Plain, topic, maxMessage), topic)
	}
	// They are there now, so they may be required.
	config.RequireTopicsExist = true
	mustOpen(t, config)
}

// TestTheCheckCreatesNothing even where the broker creates topics that a client
// asks about.
func TestTheCheckCreatesNothing(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	config.RequireTopicsExist = true
	_, err := Open(t.Context(), config)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	require.ErrorContains(t, err, config.OutTopic)
	require.ErrorContains(t, err, config.InTopic)
	require.ErrorContains(t, err, "requireTopicsExist")
	topics, err := admin(t, k.Plain).ListTopics(t.Context())
	require.NoError(t, err)
	require.False(t, topics.Has(config.OutTopic) || topics.Has(config.InTopic) || topics.Has(config.DeadLetterTopic))
	// This broker would have.
	asking, err := kgo.NewClient(kgo.SeedBrokers(k.Plain), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(config.OutTopic))
	require.NoError(t, err)
	defer asking.Close()
	require.NoError(t, asking.ProduceSync(limited(t), kgo.StringRecord("x")).FirstErr())
}

func TestTopicThatAllowsLess(t *testing.T) {
	k := brokers.SharedKafka(t)
	config := testConfig(t, k.Plain)
	_, err := admin(t, k.Plain).CreateTopic(limited(t), 1, 1, nil, config.InTopic) // the broker's 1 MiB
	require.NoError(t, err)
	_, err = Open(limited(t), config)
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	for _, part := range []string{config.InTopic, "1048588", strconv.Itoa(config.MaxMessageBytes), "max.message.bytes", "maxMessageBytes", "raise"} {
		require.ErrorContains(t, err, part)
	}
	config.MaxMessageBytes = 1 << 20
	mustOpen(t, config)
}

func TestSettingsThatCannotWork(t *testing.T) {
	dir := t.TempDir()
	certs, err := brokers.MakeCerts(dir)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no server":               {func(c *Config) { c.BootstrapServers = nil }, "bootstrapServers"},
		"no topic":                {func(c *Config) { c.InTopic = "" }, "need a name"},
		"one topic twice":         {func(c *Config) { c.InTopic = c.OutTopic }, "must differ"},
		"compression":             {func(c *Config) { c.Compression = "brotli" }, `unknown value "brotli"`},
		"mechanism":               {func(c *Config) { c.SASLMechanism = "GSSAPI" }, `unknown value "GSSAPI"`},
		"size":                    {func(c *Config) { c.MaxMessageBytes = 10 }, "maxMessageBytes"},
		"no such CA":              {func(c *Config) { c.TLS, c.CAFile = true, filepath.Join(dir, "absent") }, "tlsCaCertPath"},
		"CA that is none":         {func(c *Config) { c.TLS, c.CAFile = true, certs.ServerKey }, "no certificate"},
		"key without certificate": {func(c *Config) { c.TLS, c.KeyFile = true, certs.ClientKey }, "tlsCertPath"},
		"name of a topic":         {func(c *Config) { c.OutTopic = "a topic" }, "a topic"},
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(t, brokers.SharedKafka(t).Plain)
			c.change(&config)
			_, err := Open(limited(t), config)
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestOpenEndsWithContext, and says why it did not succeed before.
func TestOpenEndsWithContext(t *testing.T) {
	var log bytes.Buffer
	config := testConfig(t, "127.0.0.1:1")
	config.StartPause = time.Hour
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := contextWithTimeout(t, 200*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, config)
	require.ErrorIs(t, err, ctx.Err())
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.Equal(t, 1, strings.Count(log.String(), "cannot be reached"))
}

func TestWatcherSaysItOnce(t *testing.T) {
	var log bytes.Buffer
	w := newWatcher(slog.New(slog.NewTextHandler(&log, nil)))
	meta := kgo.BrokerMetadata{Host: "broker", Port: 9092}
	count := func(text string) int { return strings.Count(log.String(), text) }
	w.OnBrokerConnect(meta, 0, nil, nil)
	require.Empty(t, log.String())
	for range 3 {
		w.OnBrokerConnect(meta, 0, nil, errors.New("refused"))
	}
	require.Equal(t, 1, count("cannot be reached"))
	w.OnBrokerConnect(meta, 0, &net.TCPConn{}, nil)
	w.OnBrokerConnect(meta, 0, &net.TCPConn{}, nil)
	require.Equal(t, 1, count("again\" broker=broker:9092\n"))
}
