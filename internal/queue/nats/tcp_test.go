// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue/queuetest"
	"synchronizer/test/brokers"
)

// prefixes makes one for each queue on a shared server.
var prefixes atomic.Int64

func freshPrefix() string { return "t" + strconv.FormatInt(prefixes.Add(1), 10) }

// tcpConfig is for a server on this machine, with a start that fails soon.
func tcpConfig(t testing.TB, server *brokers.NATS) Config {
	return Config{
		URLs: []string{server.URL}, Prefix: freshPrefix(), StartRetries: 3, StartPause: 10 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), MaxBytes: 1 << 30,
	}
}

func openTCP(t testing.TB, config Config) *Queue {
	t.Helper()
	q, err := Open(t.Context(), config)
	require.NoError(t, err)
	return q
}

// ownBroker is one that a test disturbs.
type ownBroker struct {
	server *brokers.NATS
	config Config
}

func newOwnBroker(t *testing.T) *ownBroker {
	server := brokers.StartNATS(t, brokers.NATSOptions{})
	config := tcpConfig(t, server)
	config.timing = quickTiming
	return &ownBroker{server, config}
}

func (b *ownBroker) Open(t *testing.T) synchronizer.Queue { return openTCP(t, b.config) }
func (b *ownBroker) Stop(t *testing.T)                    { b.server.Stop(t) }
func (b *ownBroker) Kill(t *testing.T)                    { b.server.Kill(t) }
func (b *ownBroker) Start(t *testing.T)                   { b.server.Start(t) }

// way is one way in: the server, what the client needs for it, and what is wrong
// with the client that is refused.
func way(name string, options brokers.NATSOptions, right, wrong func(*brokers.NATS, *Config), secrets ...string) queuetest.Way {
	w := queuetest.Way{
		Name: name, Secrets: secrets,
		Open: func(t *testing.T) (synchronizer.Queue, error) {
			server := brokers.StartNATS(t, options)
			config := tcpConfig(t, server)
			right(server, &config)
			q, err := Open(t.Context(), config)
			if err != nil {
				return nil, err // a nil *Queue would not be nil
			}
			return q, nil
		},
	}
	if wrong != nil {
		w.Wrong = func(t *testing.T) error {
			server := brokers.StartNATS(t, options)
			config := tcpConfig(t, server)
			config.StartRetries, config.StartPause = 100, time.Hour // it must be said at once
			wrong(server, &config)
			_, err := Open(t.Context(), config)
			return err
		}
	}
	return w
}

func ways() []queuetest.Way {
	tls := func(s *brokers.NATS, c *Config) { c.TLS.CAFile = s.Certs.CA }
	mTLS := func(s *brokers.NATS, c *Config) {
		c.TLS = TLS{CAFile: s.Certs.CA, CertFile: s.Certs.ClientCert, KeyFile: s.Certs.ClientKey}
	}
	login := func(user, password string) func(*brokers.NATS, *Config) {
		return func(_ *brokers.NATS, c *Config) { c.Username, c.Password = user, password }
	}
	return []queuetest.Way{
		way("plain", brokers.NATSOptions{}, func(*brokers.NATS, *Config) {}, nil),
		way("TLS", brokers.NATSOptions{TLS: true}, tls, func(s *brokers.NATS, c *Config) { c.TLS.CAFile = s.Certs.OtherCA }),
		way("TLS by address", brokers.NATSOptions{TLS: true}, func(s *brokers.NATS, c *Config) {
			tls(s, c)
			c.URLs[0] = strings.Replace(c.URLs[0], "nats://", "tls://", 1)
		}, func(_ *brokers.NATS, c *Config) { c.URLs[0] = strings.Replace(c.URLs[0], "nats://", "tls://", 1) }),
		way("mTLS", brokers.NATSOptions{MTLS: true}, mTLS, func(s *brokers.NATS, c *Config) {
			c.TLS = TLS{CAFile: s.Certs.CA, CertFile: s.Certs.OtherCert, KeyFile: s.Certs.OtherKey}
		}),
		way("mTLS without certificate", brokers.NATSOptions{MTLS: true}, mTLS, tls),
		way("user and password", brokers.NATSOptions{Password: true}, login(brokers.NATSUser, brokers.NATSPassword),
			login(brokers.NATSUser, "not-the-password"), brokers.NATSPassword, "not-the-password"),
		way("user and password in the address", brokers.NATSOptions{Password: true},
			func(_ *brokers.NATS, c *Config) {
				c.URLs[0] = strings.Replace(c.URLs[0], "://", "://"+brokers.NATSUser+":"+brokers.NATSPassword+"@", 1)
			},
			func(_ *brokers.NATS, c *Config) {
				c.URLs[0] = strings.Replace(c.URLs[0], "://", "://app:wrong-one@", 1)
			}, "wrong-one"),
		way("token", brokers.NATSOptions{Token: true}, func(_ *brokers.NATS, c *Config) { c.Token = brokers.NATSToken },
			func(_ *brokers.NATS, c *Config) { c.Token = "not-the-token" }, brokers.NATSToken, "not-the-token"),
		way("token with TLS", brokers.NATSOptions{Token: true, TLS: true}, func(s *brokers.NATS, c *Config) {
			tls(s, c)
			c.Token = brokers.NATSToken
		}, func(s *brokers.NATS, c *Config) {
			tls(s, c)
			c.Token = "not-the-token"
		}, brokers.NATSToken, "not-the-token"),
		way("nkey", brokers.NATSOptions{NKey: true}, func(s *brokers.NATS, c *Config) { c.NKeySeedFile = s.NKeySeed },
			func(s *brokers.NATS, c *Config) { c.NKeySeedFile = s.OtherNKeySeed }),
		way("creds", brokers.NATSOptions{Creds: true}, func(s *brokers.NATS, c *Config) { c.CredsFile = s.Creds },
			func(s *brokers.NATS, c *Config) { c.CredsFile = s.OtherCreds }),
	}
}

// leftovers are the consumers of the queues with a prefix, but for those of the
// suite's groups.
func leftovers(t *testing.T, config Config) []string {
	t.Helper()
	q := openTCP(t, config)
	defer shut(t, q)
	var names []string
	for _, d := range []synchronizer.Direction{synchronizer.Out, synchronizer.In, synchronizer.DeadLetter} {
		stream, err := q.js.Stream(t.Context(), q.streamName(d))
		require.NoError(t, err)
		lister := stream.ListConsumers(t.Context())
		for info := range lister.Info() {
			if !strings.HasPrefix(info.Name, token(queuetest.Group)) {
				names = append(names, info.Name)
			}
		}
		require.NoError(t, lister.Err())
	}
	return names
}

func TestContractOverTCP(t *testing.T) {
	var last Config
	fresh := func(t *testing.T) queuetest.Open {
		config := tcpConfig(t, brokers.SharedNATS(t))
		last = config
		return func(t *testing.T) synchronizer.Queue { return openTCP(t, config) }
	}
	queuetest.Run(t, queuetest.Factory{
		Name:       "nats",
		Version:    "nats-server, version in go.mod",
		New:        fresh,
		MaxPayload: 1 << 20,
		Large:      1000 << 10,
		Patience:   patience,
		Broker:     func(t *testing.T) queuetest.Broker { return newOwnBroker(t) },
		Ways:       ways(),
		Absent: func(t *testing.T) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			require.NoError(t, l.Close())
			config := Config{URLs: []string{"nats://" + l.Addr().String()}, StartRetries: 2, StartPause: time.Millisecond, Logger: quietLogger()}
			_, err = Open(t.Context(), config)
			return err
		},
		Leftovers: func(t *testing.T) []string { return leftovers(t, last) },
		Chunks:    &queuetest.ChunkFactory{New: fresh, MaxRecord: 1 << 20},
	})
}

// TestStart: what is wrong is said, with the name of the thing and what to do.
func TestStart(t *testing.T) {
	start := func(t *testing.T, config Config) error {
		config.Logger = quietLogger()
		_, err := Open(t.Context(), config)
		require.Error(t, err)
		return err
	}
	t.Run("nobody answers", func(t *testing.T) {
		err := start(t, Config{URLs: []string{"nats://user:secret@127.0.0.1:1"}, StartRetries: 3, StartPause: time.Millisecond})
		require.ErrorContains(t, err, "nats://127.0.0.1:1: gave up after 3 tries")
		require.NotContains(t, err.Error(), "secret")
	})
	t.Run("context ends", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := Open(ctx, Config{URLs: []string{"nats://127.0.0.1:1"}, Logger: quietLogger()})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("no JetStream", func(t *testing.T) {
		server := brokers.StartNATS(t, brokers.NATSOptions{NoJetStream: true})
		config := tcpConfig(t, server)
		config.StartRetries = 2
		require.ErrorContains(t, start(t, config), "start nats-server with JetStream (-js)")
	})
	t.Run("settings", func(t *testing.T) {
		url := []string{"nats://127.0.0.1:1"}
		for text, config := range map[string]Config{
			"no servers":                      {},
			`prefix "a.b"`:                    {URLs: url, Prefix: "a.b"},
			"several ways":                    {URLs: url, Username: "a", Token: "b"},
			"1 partitions":                    {URLs: url, Partitions: 1},
			"/missing.nk":                     {URLs: url, NKeySeedFile: "/missing.nk"},
			"/missing.creds":                  {URLs: url, CredsFile: "/missing.creds"},
			"reading CA":                      {URLs: url, TLS: TLS{CAFile: "/missing.pem"}},
			"reading certificate of this":     {URLs: url, TLS: TLS{CertFile: "/missing.pem"}},
			"no certificate in /proc/version": {URLs: url, TLS: TLS{CAFile: "/proc/version"}},
		} {
			err := start(t, config)
			require.ErrorIs(t, err, synchronizer.ErrInvalid, text)
			require.ErrorContains(t, err, text)
		}
	})
	t.Run("older server", func(t *testing.T) {
		require.ErrorContains(t, newEnough("2.10.22"), "2.11 or newer")
		for _, version := range []string{"2.11.0", "2.15.3-beta", "3.0.0", "unknown"} {
			require.NoError(t, newEnough(version))
		}
	})
}

// TestStreamsThatExist: settings that can be changed are, those of the operator
// stay, and what cannot be used is named.
func TestStreamsThatExist(t *testing.T) {
	server := brokers.SharedNATS(t)
	helper := openTCP(t, tcpConfig(t, server))
	defer shut(t, helper)
	make := func(config Config, change func(*jetstream.StreamConfig)) {
		stream := jetstream.StreamConfig{
			Name: config.Prefix + "-out", Subjects: []string{config.Prefix + ".out.>"}, Duplicates: time.Minute, Description: "of an operator",
		}
		change(&stream)
		_, err := helper.js.CreateStream(t.Context(), stream)
		require.NoError(t, err)
	}
	t.Run("changed", func(t *testing.T) {
		config := tcpConfig(t, server)
		config.MaxAge = time.Hour
		make(config, func(*jetstream.StreamConfig) {})
		q := openTCP(t, config)
		defer shut(t, q)
		stream, err := q.js.Stream(t.Context(), config.Prefix+"-out")
		require.NoError(t, err)
		is := stream.CachedInfo().Config
		require.Equal(t, config.MaxBytes, is.MaxBytes)
		require.Equal(t, time.Hour, is.MaxAge)
		require.Equal(t, jetstream.DiscardNew, is.Discard)
		require.Equal(t, duplicates, is.Duplicates)
		require.Equal(t, "of an operator", is.Description)
	})
	for problem, change := range map[string]func(*jetstream.StreamConfig){
		"keeps its records in memory": func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"is a work queue":             func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"denies removing records":     func(c *jetstream.StreamConfig) { c.DenyPurge = true },
	} {
		t.Run(problem, func(t *testing.T) {
			config := tcpConfig(t, server)
			config.StartPause = time.Hour
			make(config, change)
			_, err := Open(t.Context(), config)
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
			require.ErrorContains(t, err, "stream "+config.Prefix+"-out")
			require.ErrorContains(t, err, problem)
		})
	}
	t.Run("subjects of another stream", func(t *testing.T) {
		config := tcpConfig(t, server)
		config.StartPause = time.Hour
		make(config, func(c *jetstream.StreamConfig) { c.Name = config.Prefix + "-other" })
		_, err := Open(t.Context(), config)
		require.ErrorContains(t, err, "stream "+config.Prefix+"-out")
		require.ErrorContains(t, err, "overlap")
	})
	t.Run("too many replicas", func(t *testing.T) {
		config := tcpConfig(t, server)
		config.Replicas = 3
		_, err := Open(t.Context(), config)
		require.ErrorContains(t, err, "replicas")
	})
}

// TestOldAge: MaxAge removes what nobody has acknowledged, on both brokers.
func TestOldAge(t *testing.T) {
	embedded := open(t, EmbeddedConfig{Dir: t.TempDir(), MaxAge: 300 * time.Millisecond})
	config := tcpConfig(t, brokers.SharedNATS(t))
	config.MaxAge = 300 * time.Millisecond
	for _, q := range []*Queue{embedded, openTCP(t, config)} {
		defer shut(t, q)
		require.NoError(t, q.Publish(t.Context(), synchronizer.Out, numbers("a/c", 0, 10, 8)))
		require.Eventually(t, func() bool {
			stream, err := q.js.Stream(t.Context(), q.streamName(synchronizer.Out))
			return err == nil && stream.CachedInfo().State.Msgs == 0
		}, patience, 20*time.Millisecond)
	}
}

// TestLimitOfTheBroker: it is read at the start, counts headers exactly, and a
// smaller one after a restart is noticed.
func TestLimitOfTheBroker(t *testing.T) {
	server := brokers.StartNATS(t, brokers.NATSOptions{MaxPayload: 100_000})
	q := openTCP(t, tcpConfig(t, server))
	defer shut(t, q)
	require.Equal(t, 100_000, q.MaxPayload())
	record := func(size int) synchronizer.Record {
		r := synchronizer.Record{Key: "a/ü", Properties: []synchronizer.Property{{Name: "näme", Value: "välue\n"}, {Name: "event", Value: "PutObject"}}}
		var h headers
		_, header := h.of(&r, false)
		r.Payload = make([]byte, size-header)
		return r
	}
	fits, tooLarge := record(100_000), record(100_001)
	require.Equal(t, 100_000, q.RecordSize(&fits))
	require.Equal(t, 100_001, q.RecordSize(&tooLarge))
	small := record(1000)
	require.LessOrEqual(t, q.RecordSize(&small), 2000)
	require.GreaterOrEqual(t, q.RecordSize(&small), 1000)
	require.NoError(t, q.Publish(t.Context(), synchronizer.Out, []synchronizer.Record{fits}))
	err := q.Publish(t.Context(), synchronizer.Out, []synchronizer.Record{small, tooLarge, small})
	require.ErrorIs(t, err, synchronizer.ErrTooLarge)
	require.ErrorContains(t, err, "a/ü")

	server.Stop(t)
	server.Limit(t, 50_000)
	server.Start(t)
	require.Eventually(t, func() bool { return q.MaxPayload() == 50_000 }, patience, 10*time.Millisecond)
	require.ErrorIs(t, q.Publish(t.Context(), synchronizer.Out, []synchronizer.Record{small, fits, small}), synchronizer.ErrTooLarge)
	c, err := q.Consume(t.Context(), "g")
	require.NoError(t, err)
	count := 0
	for count < 5 {
		batch, err := c.Next(t.Context(), 10, 1<<20)
		require.NoError(t, err)
		count += len(batch.Records)
		require.NoError(t, batch.Ack(t.Context()))
	}
	require.Equal(t, 5, count)
}

// loggerTo signals each warning.
func loggerTo(c chan struct{}) *slog.Logger {
	return slog.New(slog.NewTextHandler(signals(c), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type signals chan struct{}

func (s signals) Write(b []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(b), nil
}
