// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"synchronizer"
)

// The mechanisms of SASL.
const (
	PLAIN       = "PLAIN"
	SCRAMSHA256 = "SCRAM-SHA-256"
	SCRAMSHA512 = "SCRAM-SHA-512"
)

// Config says where the broker is and how to use it. Values are those of
// backend.messageQueue.kafkaConfig, which errors name.
type Config struct {
	BootstrapServers []string // host:port; required

	OutTopic        string // clusters to backend; required
	InTopic         string // backend to clusters; required
	DeadLetterTopic string // empty: that of out with "-dlq" behind it

	// RequireTopicsExist makes a missing topic an error. Otherwise it is created,
	// with Partitions (0: 16) and the broker's default of replicas.
	RequireTopicsExist bool
	Partitions         int

	Compression string // none, gzip, snappy, lz4 or zstd; empty: zstd
	// MaxMessageBytes bounds one record with its key and properties, before
	// compression; 0: 64 MiB. Each topic has to allow as much.
	MaxMessageBytes int

	TLS      bool
	CAFile   string // PEM; empty: the authorities of the system
	CertFile string // PEM, this side's certificate; empty: none
	KeyFile  string

	SASLMechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; empty: no SASL
	SASLUser      string
	SASLPassword  string

	StartRetries int           // how often Open tries; 0: 20
	StartPause   time.Duration // between tries; 0: 3 s

	Logger *slog.Logger // nil: none

	// For tests; zero values are the defaults.
	session       time.Duration // after which a silent member is replaced
	heartbeat     time.Duration
	partitionScan time.Duration // how often a tail looks for new partitions
	handover      time.Duration // how long a member waits for Ack before it gives partitions up
	dial          func(ctx context.Context, network, host string) (net.Conn, error)
}

const (
	defaultPartitions      = 16
	defaultMaxMessageBytes = 64 << 20
	// windowBytes bounds what is on its way to the broker, and so the size of a
	// batch too.
	windowBytes = 8 << 20
	fetchBytes  = 8 << 20
	fetchWait   = 500 * time.Millisecond
)

func (c *Config) setDefaults() {
	if c.DeadLetterTopic == "" {
		c.DeadLetterTopic = c.OutTopic + "-dlq"
	}
	if c.Partitions == 0 {
		c.Partitions = defaultPartitions
	}
	if c.Compression == "" {
		c.Compression = "zstd"
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = defaultMaxMessageBytes
	}
	if c.StartRetries == 0 {
		c.StartRetries = 20
	}
	if c.StartPause == 0 {
		c.StartPause = 3 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for d, value := range map[*time.Duration]time.Duration{
		&c.session: 10 * time.Second, &c.heartbeat: time.Second, &c.partitionScan: 30 * time.Second, &c.handover: 5 * time.Second,
	} {
		if *d == 0 {
			*d = value
		}
	}
}

func (c *Config) topic(d synchronizer.Direction) string {
	switch d {
	case synchronizer.Out:
		return c.OutTopic
	case synchronizer.In:
		return c.InTopic
	}
	return c.DeadLetterTopic
}

func (c *Config) topics() []string { return []string{c.OutTopic, c.InTopic, c.DeadLetterTopic} }

const section = "backend.messageQueue.kafkaConfig."

func invalid(key, format string, args ...any) error {
	return fmt.Errorf("%w: %s%s: %s", synchronizer.ErrInvalid, section, key, fmt.Sprintf(format, args...))
}

// clientOptions are those that every connection needs.
func (c *Config) clientOptions(watch *watcher) ([]kgo.Opt, error) {
	if len(c.BootstrapServers) == 0 {
		return nil, invalid("bootstrapServers", "is empty")
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(c.BootstrapServers...),
		kgo.ClientID("synchronizer"),
		kgo.DisableClientMetrics(),
		kgo.WithHooks(watch),
		kgo.MetadataMaxAge(time.Minute),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryBackoffFn(backoff),
		// Both sides of a connection carry one record above all else.
		kgo.BrokerMaxWriteBytes(int32(max(100<<20, c.MaxMessageBytes+1<<20))),
		kgo.BrokerMaxReadBytes(int32(max(100<<20, c.MaxMessageBytes+2*fetchBytes))),
	}
	if c.TLS {
		config, err := c.tlsConfig()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if c.dial != nil {
		options = append(options, kgo.Dialer(c.dial))
	}
	mechanism, err := c.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

// backoff is short at first, so that a restarted broker is used soon.
func backoff(fails int) time.Duration {
	return min(100*time.Millisecond<<min(max(fails-1, 0), 5), 2*time.Second)
}

func (c *Config) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, invalid("tlsCaCertPath", "%v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, invalid("tlsCaCertPath", "%s holds no certificate in PEM", c.CAFile)
		}
	}
	if c.CertFile != "" || c.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, invalid("tlsCertPath", "reading certificate and key: %v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (c *Config) mechanism() (sasl.Mechanism, error) {
	switch c.SASLMechanism {
	case "":
		return nil, nil
	case PLAIN:
		return plain.Auth{User: c.SASLUser, Pass: c.SASLPassword}.AsMechanism(), nil
	case SCRAMSHA256:
		return scram.Auth{User: c.SASLUser, Pass: c.SASLPassword}.AsSha256Mechanism(), nil
	case SCRAMSHA512:
		return scram.Auth{User: c.SASLUser, Pass: c.SASLPassword}.AsSha512Mechanism(), nil
	}
	return nil, invalid("saslMechanism", "unknown value %q: use %s, %s or %s", c.SASLMechanism, PLAIN, SCRAMSHA256, SCRAMSHA512)
}

func (c *Config) codecs() ([]kgo.CompressionCodec, error) {
	switch c.Compression {
	case "none":
		return []kgo.CompressionCodec{kgo.NoCompression()}, nil
	case "gzip":
		return []kgo.CompressionCodec{kgo.GzipCompression()}, nil
	case "snappy":
		return []kgo.CompressionCodec{kgo.SnappyCompression()}, nil
	case "lz4":
		return []kgo.CompressionCodec{kgo.Lz4Compression()}, nil
	case "zstd":
		return []kgo.CompressionCodec{kgo.ZstdCompression()}, nil
	}
	return nil, invalid("compressionType", "unknown value %q: use none, gzip, snappy, lz4 or zstd", c.Compression)
}

// readerOptions bound what a reader holds. The number of fetches at once is not
// bounded below one per broker: an idle broker's answer is waited for, and would
// keep records of another one back.
func (c *Config) readerOptions(watch *watcher) ([]kgo.Opt, error) {
	options, err := c.clientOptions(watch)
	return append(options,
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchBytes/4),
		// A partition that is added while a request waits at the broker is asked for
		// by the next one only.
		kgo.FetchMaxWait(fetchWait),
	), err
}
