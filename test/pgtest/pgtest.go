// SPDX-License-Identifier: Apache-2.0

package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// shared is the server of the test binary.
var shared struct {
	mu     sync.Mutex
	server *Server
}

// Main wraps the tests of a TestMain: the shared server ends after them.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }
func Main(m interface{ Run() int }) interface{ Run() int } { return main{m} }

type main struct{ m interface{ Run() int } }

func (m main) Run() int {
	code := m.m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		if err := shared.server.remove(); err != nil {
			fmt.Fprintln(os.Stderr, "removing the shared PostgreSQL:", err)
			code = max(code, 1)
		}
		shared.server = nil
	}
	return code
}

// Database gives the URL of an empty database on the shared server. It is
// dropped when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		server, err := newServer(nil)
		require.NoError(t, err)
		shared.server = server
	}
	name := shared.server.makeDatabase(t, "")
	server := shared.server
	t.Cleanup(func() {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		_ = server.exec(context.Background(), "postgres", "DROP DATABASE "+name+" WITH (FORCE)") // t.Context has ended
	})
	return server.URL(name)
}

// Start starts a server of the test's own. Settings are like "max_connections=10".
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := newServer(settings)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.remove()) })
	return s
}

// Database gives the URL of an empty database.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.URL(s.makeDatabase(t, ""))
}

// SmallDatabase gives an empty database on a file system of so many bytes, all of
// which are there for its tables; false if this user may not mount one.
func (s *Server) SmallDatabase(t testing.TB, bytes int64) (string, bool) {
	t.Helper()
	dir := filepath.Join(s.dir, fmt.Sprintf("small%d", len(s.mounts)))
	require.NoError(t, os.Mkdir(dir, 0o700))
	if err := mountMemory(dir, bytes); err != nil {
		t.Log("no file system of its own for the database:", err)
		return "", false
	}
	s.mounts = append(s.mounts, dir)
	if s.owner != nil {
		require.NoError(t, os.Chown(dir, int(s.owner.uid), int(s.owner.gid)))
	}
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, s.exec(t.Context(), "postgres", "CREATE TABLESPACE small LOCATION '"+dir+"'"))
	return s.URL(s.makeDatabase(t, " TABLESPACE small")), true
}

func (s *Server) makeDatabase(t testing.TB, options string) string {
	t.Helper()
	s.number++
	name := fmt.Sprintf("test%d", s.number)
	require.NoError(t, s.exec(t.Context(), "postgres", "CREATE DATABASE "+name+options))
	return name
}

// Exec runs one statement in the database "postgres", such as a change of a
// setting.
func (s *Server) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	require.NoError(t, s.exec(t.Context(), "postgres", statement, args...))
}

// Terminate ends all connections of clients, as an administrator would.
func (s *Server) Terminate(t testing.TB) {
	t.Helper()
	s.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
}

// Stop shuts the server down; clients are cut off.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	require.NoError(t, s.signal(syscall.SIGINT))
}

// Kill ends all processes of the server by SIGKILL.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	require.NotNil(t, s.process)
	parent := s.process.cmd.Process.Pid
	_ = syscall.Kill(parent, syscall.SIGSTOP) // it must not start others meanwhile
	for _, child := range childrenOf(parent) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	require.NoError(t, s.signal(syscall.SIGKILL))
}

// Start starts a server that was stopped or killed, and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	require.NoError(t, s.start())
}

// Freeze stops the server's processes in the middle of what they do; the
// connections stay. The function lets them go on.
func (s *Server) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	pids := append(s.children(t), s.process.cmd.Process.Pid)
	for _, pid := range pids {
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	var once sync.Once
	thaw = func() {
		once.Do(func() {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		})
	}
	t.Cleanup(thaw)
	return thaw
}
