// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"database/sql"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/api"
	"synchronizer/internal/app"
	"synchronizer/internal/config"
	"synchronizer/internal/link/stock"
	"synchronizer/internal/queue/nats"
	"synchronizer/internal/store/sqlite"
)

const limit = time.Minute

// configuration is that of `up` with any free ports.
func configuration(t *testing.T, dir string, more ...string) *config.Config {
	t.Helper()
	env := config.Env{}
	for i := 0; i < len(more); i += 2 {
		env = env.With(more[i], more[i+1])
	}
	for key, value := range map[string]string{
		"SYNCHRONIZER_BACKEND_DATADIR": dir, "SYNCHRONIZER_BACKEND_LISTEN": "127.0.0.1:0", "SYNCHRONIZER_API_LISTEN": "127.0.0.1:0",
		"SYNCHRONIZER_BACKEND_HEALTHPORT": "0", "SYNCHRONIZER_BACKEND_ACCESSKEYS": config.AccessKeysStore,
	} {
		if _, ok := env.With("", "").Lookup(key); !ok {
			env = env.With(key, value)
		}
	}
	c, _, err := config.LoadUp(env)
	require.NoError(t, err)
	return c
}

func TestOpenErrors(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	_, port, err := net.SplitHostPort(busy.Addr().String())
	require.NoError(t, err)
	taken := func(key string) func(*testing.T, string) *config.Config {
		return func(t *testing.T, dir string) *config.Config {
			value := "127.0.0.1:" + port
			if key == "SYNCHRONIZER_BACKEND_HEALTHPORT" {
				value = port
			}
			return configuration(t, dir, key, value)
		}
	}
	for name, test := range map[string]struct {
		open func(t *testing.T, dir string) *config.Config
		want string
		is   error
	}{
		"clients' port": {open: taken("SYNCHRONIZER_BACKEND_LISTEN"), want: "(backend.listen)"},
		"clients' port, by the key of the field": {open: func(t *testing.T, dir string) *config.Config {
			c := configuration(t, dir)
			c.Backend.Listen, c.Backend.Port = "", busy.Addr().(*net.TCPAddr).Port
			return c
		}, want: "(backend.port)"},
		"health port": {open: taken("SYNCHRONIZER_BACKEND_HEALTHPORT"), want: "(backend.healthPort)"},
		"API's port":  {open: taken("SYNCHRONIZER_API_LISTEN"), want: "(api.listen)"},
		"database of a newer version": {open: func(t *testing.T, dir string) *config.Config {
			c := configuration(t, dir)
			db, err := sqlite.Open(t.Context(), c.SQLitePath())
			require.NoError(t, err)
			require.NoError(t, db.Close())
			pool, err := sql.Open("sqlite", c.SQLitePath())
			require.NoError(t, err)
			_, err = pool.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)")
			require.NoError(t, err)
			require.NoError(t, pool.Close())
			return c
		}, want: "synchronizer.db", is: synchronizer.ErrSchemaTooNew},
		"data folder is a file": {open: func(t *testing.T, dir string) *config.Config {
			file := filepath.Join(dir, "file")
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			return configuration(t, file)
		}, want: "file"},
		"database in use": {open: func(t *testing.T, dir string) *config.Config {
			c := configuration(t, dir)
			db, err := sqlite.Open(t.Context(), c.SQLitePath())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			return c
		}, want: "stop the other process", is: sqlite.ErrInUse},
		"queue in use": {open: func(t *testing.T, dir string) *config.Config {
			c := configuration(t, dir)
			q, err := nats.OpenEmbedded(t.Context(), nats.EmbeddedConfig{Dir: c.QueuePath(), Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, q.Close(context.WithoutCancel(t.Context()))) })
			return c
		}, want: "opening queue in"},
		"empty secret": {open: func(t *testing.T, dir string) *config.Config {
			require.NoError(t, os.WriteFile(TokenFile(dir), nil, 0o600))
			return configuration(t, dir)
		}, want: "the file is empty"},
		"another queue": {open: func(t *testing.T, dir string) *config.Config {
			c := configuration(t, dir)
			c.Backend.MessageQueue.Type = "rabbit"
			return c
		}, want: `backend.messageQueue.type "rabbit" is not known`, is: synchronizer.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.open(t, t.TempDir())
			b, err := Open(t.Context(), app.NewProcess(io.Discard), c)
			require.ErrorContains(t, err, test.want)
			require.Nil(t, b)
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
		})
	}
}

// TestPortsComeFirst: a process that cannot run leaves nothing on the disk.
func TestPortsComeFirst(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	dir := filepath.Join(t.TempDir(), "data")
	_, err = Open(t.Context(), app.NewProcess(io.Discard), configuration(t, dir, "SYNCHRONIZER_API_LISTEN", busy.Addr().String()))
	require.Error(t, err)
	require.NoDirExists(t, dir)
}

var configMaps = synchronizer.Kind{Version: "v1", Resource: "configmaps"}

// TestRun serves, stops and leaves nothing behind; what was stored is there
// after a restart, with the same secrets.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"demo","uid":"u"}}`
	var secrets Secrets
	for start := range 2 {
		b, err := Open(t.Context(), app.NewProcess(io.Discard), configuration(t, dir))
		require.NoError(t, err)
		require.Equal(t, start == 0, b.Secrets.Made)
		b.Secrets.Made = false
		if start > 0 {
			require.Equal(t, secrets, b.Secrets)
		}
		secrets = b.Secrets
		clients, people, health := b.ClientsAddress(), b.APIAddress(), b.HealthAddress()

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		web := &http.Client{Transport: &http.Transport{}}
		status := func(address, path string) int {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
			require.NoError(t, err)
			response, err := web.Do(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			return response.StatusCode
		}
		require.Eventually(t, func() bool { return status(people, "/readyz") == 200 }, limit, 10*time.Millisecond)
		require.Equal(t, 200, status(health, "/metrics"))
		require.Equal(t, 200, status(health, "/readyz"))

		reader := &api.Client{Server: "http://" + people, Token: secrets.APIToken, HTTP: web}
		if start == 0 {
			_, response, err := stock.TryConnect(t, "http://"+clients, stock.ClientOptions{Account: LocalAccount, AccessKey: "wrong"})
			require.Error(t, err)
			require.Equal(t, 401, response.StatusCode)
			stock.Connect(t, "http://"+clients, stock.ClientOptions{
				Account: LocalAccount, Cluster: "c", AccessKey: secrets.AccessKey, Kinds: map[synchronizer.Kind]stock.Strategy{configMaps: stock.Copy},
				Objects: []stock.Object{{Kind: configMaps, Namespace: "demo", Name: "one", JSON: body}},
			})
		}
		require.Eventually(t, func() bool {
			list, err := reader.Objects(t.Context(), url.Values{"full": {"true"}})
			require.NoError(t, err)
			return len(list.Items) == 1 && string(list.Items[0].Object) == body
		}, limit, 10*time.Millisecond)

		cancel()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(limit):
			require.FailNow(t, "the backend does not stop")
		}
		web.CloseIdleConnections()
		require.NoError(t, b.Close(), "may be called again")
		for _, address := range []string{clients, people, health} {
			_, err := net.DialTimeout("tcp", address, time.Second)
			require.Error(t, err, "the port is free again")
		}
	}
}

// TestRunThatCannotGoOn: when a part fails, the others end as well.
func TestRunThatCannotGoOn(t *testing.T) {
	b, err := Open(t.Context(), app.NewProcess(io.Discard), configuration(t, t.TempDir()))
	require.NoError(t, err)
	require.NoError(t, b.people.Close())
	done := make(chan error, 1)
	go func() { done <- b.Run(t.Context()) }()
	select {
	case err := <-done:
		require.ErrorContains(t, err, "serving on")
	case <-time.After(limit):
		require.FailNow(t, "the backend goes on without its API")
	}
}

func TestIngesterAlone(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"backend":{"messageQueue":{"type":"embedded"}}}`), 0o600))
	err := RunIngester(t.Context(), dir)
	require.Equal(t, app.ExitUsage, app.ExitCode(err), "%v", err)
	require.ErrorContains(t, err, "embedded")
}
