// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

func TestConfigChecks(t *testing.T) {
	good := Config{URL: "pulsar://h", OutTopic: "out", InTopic: "in"}
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"good", func(*Config) {}, nil},
		{"one topic for both", func(c *Config) { c.InTopic = "out" }, nil},
		{"several brokers", func(c *Config) { c.URL = "pulsar+ssl://a,b:1/" }, nil},
		{"scheme", func(c *Config) { c.URL = "http://h" }, []string{"pulsar://"}},
		{"password in the address", func(c *Config) { c.URL = "pulsar://u:hunter2@h" }, []string{"like pulsar://host:port"}},
		{"subscription of the field", func(c *Config) { c.Subscription = "synchronizer-a" }, []string{"belongs to the ingester in the field"}},
		{"everything", func(c *Config) {
			*c = Config{URL: "pulsar://", Tenant: "a/b", AdminURL: "h", OutTopic: "", InTopic: "x y", Token: "hunter2", TokenFile: "f", CertFile: "c"}
		}, []string{"like pulsar://host:port", "admin URL", `tenant of Pulsar is "a/b"`, `topic for out of Pulsar is ""`, `topic for in of Pulsar is "x y"`, "give one of them", "both the certificate and its key"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := good
			test.change(&c)
			c = c.withDefaults()
			err := c.check()
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
			for _, part := range test.want {
				require.ErrorContains(t, err, part)
			}
			require.NotContains(t, err.Error(), "hunter2")
			_, err = Open(t.Context(), c)
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
		})
	}
}

func TestTopics(t *testing.T) {
	c := Config{Tenant: "armo", Namespace: "kubescape", OutTopic: "out", InTopic: "in"}
	require.Equal(t, "persistent://armo/kubescape/out", c.topic(synchronizer.Out))
	require.Equal(t, "persistent://armo/kubescape/in", c.topic(synchronizer.In))
	require.Equal(t, "persistent://armo/kubescape-dlqs/out-dlq", c.topic(synchronizer.DeadLetter))
}

func TestTokenFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	c := Config{TokenFile: file}
	_, err := c.token()
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, token := range []string{"one", "two"} {
		require.NoError(t, os.WriteFile(file, []byte(" "+token+"\n"), 0o600))
		got, err := c.token()
		require.NoError(t, err)
		require.Equal(t, token, got)
	}
	require.NoError(t, os.WriteFile(file, []byte("\n"), 0o600))
	_, err = c.token()
	require.ErrorContains(t, err, "is empty")
}

// TestPositionsGrow: positions order ids as Pulsar does.
func TestPositionsGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := func() client.MessageID {
			return client.NewMessageID(rapid.Int64Range(0, 1<<27).Draw(t, "ledger"), rapid.Int64Range(0, 1<<entryBits-1).Draw(t, "entry"),
				rapid.Int32Range(-1, 1<<batchBits-2).Draw(t, "batch"), 0)
		}
		a, b := id(), id()
		require.Equal(t, after(a, b), position(a) > position(b))
		require.Equal(t, after(b, a), position(a) < position(b))
	})
}

func TestLibraryLogIsWarning(t *testing.T) {
	var text strings.Builder
	var ended atomic.Bool
	log := libraryLog(slog.New(slog.NewTextHandler(&text, nil)), &ended)
	log.SubLogger(nil).WithField("a", 1).Info("quiet")
	log.Debugf("quiet")
	require.Empty(t, text.String())
	log.WithField("topic", "x").Errorf("no %s", "answer")
	require.Contains(t, text.String(), `level=WARN msg="queue: no answer" topic=x`)
	before := text.Len()
	ended.Store(true)
	log.Error("after the end")
	require.Len(t, text.String(), before)
}

func FuzzConnected(f *testing.F) {
	f.Add([]byte{8, 3, 26, 6, 10, 1, 'x', 24, 128, 8})
	f.Add([]byte{8, 14, 114, 7, 8, 1, 16, 3, 26, 1, 'x'})
	f.Fuzz(func(t *testing.T, command []byte) {
		if size, err := connected(command); err == nil && size < 0 {
			t.Fatal("negative size")
		}
	})
}

func TestConnectedAnswers(t *testing.T) {
	size, err := connected([]byte{8, 3, 26, 6, 10, 1, 'x', 24, 128, 8})
	require.NoError(t, err)
	require.Equal(t, 1024, size)
	_, err = connected([]byte{8, 14, 114, 7, 8, 1, 16, 3, 26, 1, 'x'})
	require.ErrorIs(t, err, synchronizer.ErrUnauthorized)
	_, err = connected([]byte{8, 7})
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	_, err = connected([]byte{8})
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	_, err = readFrame(strings.NewReader("HTTP/1.1 400 Bad Request"))
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
}
