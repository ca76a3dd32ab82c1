// SPDX-License-Identifier: Apache-2.0

package brokers

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const parentVariable = "BROKERS_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		beParent(dir)
	}
	os.Exit(Main(m))
}

// shell is a broker of one line.
func shell(t *testing.T, script string) command {
	return command{name: "shell", path: "/bin/sh", args: []string{"-c", script}, log: filepath.Join(t.TempDir(), "log")}
}

func said(p *process, text string) func() bool {
	return func() bool { return strings.Contains(tail(p.log, 100), text) }
}

func gone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "Z") // its parent is gone; init reaps it
}

func TestProcessStops(t *testing.T) {
	p, err := startProcess(shell(t, `trap 'echo bye; exit 3' TERM; echo hello; while :; do sleep 0.05; done`))
	require.NoError(t, err)
	require.NoError(t, p.await(said(p, "hello")))
	require.True(t, p.running())
	require.NoError(t, p.stop())
	require.False(t, p.running())
	require.True(t, strings.HasSuffix(tail(p.log, 10), "bye"), "it was asked, not killed")
}

func TestKillReachesTheGroup(t *testing.T) {
	p, err := startProcess(shell(t, `trap '' TERM; sleep 1000 & echo child $!; wait`))
	require.NoError(t, err)
	require.NoError(t, p.await(said(p, "child")))
	child, err := strconv.Atoi(strings.Fields(tail(p.log, 1))[1])
	require.NoError(t, err)
	p.kill()
	require.Eventually(t, func() bool { return gone(child) }, 10*time.Second, 10*time.Millisecond)
	p.kill() // twice is no harm
}

func TestStartErrorShowsTheLog(t *testing.T) {
	p, err := startProcess(shell(t, `echo the reason; exit 7`))
	require.NoError(t, err)
	err = p.await(func() bool { return false })
	require.ErrorContains(t, err, "the reason")
	require.ErrorContains(t, err, "exit status 7")
	_, err = startProcess(command{name: "nothing", path: "/nonexistent", log: filepath.Join(t.TempDir(), "log")})
	require.ErrorContains(t, err, "starting nothing")
}

func beParent(dir string) {
	p, err := startProcess(command{name: "child", path: "/bin/sleep", args: []string{"1000"}, log: filepath.Join(dir, "log")})
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte(strconv.Itoa(p.pid)), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "pid")); err != nil {
		panic(err)
	}
	select {}
}

// TestKilledParent: the broker of a test binary that dies of SIGKILL dies too.
func TestKilledParent(t *testing.T) {
	dir := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+dir)
	require.NoError(t, parent.Start())
	var child int
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "pid"))
		child, _ = strconv.Atoi(string(text))
		return child != 0
	}, 20*time.Second, 10*time.Millisecond)
	require.False(t, gone(child))
	require.NoError(t, parent.Process.Signal(syscall.SIGKILL))
	_ = parent.Wait()
	require.Eventually(t, func() bool { return gone(child) }, 10*time.Second, 10*time.Millisecond)
}

func TestOtherPortsAreTried(t *testing.T) {
	var seen [][]int
	err := onFreePorts(3, func(ports []int) error {
		seen = append(seen, ports)
		for _, port := range ports {
			l, err := net.Listen("tcp", address(port))
			require.NoError(t, err)
			require.NoError(t, l.Close())
		}
		if len(seen) < 3 {
			return fmt.Errorf("java.net.BindException: Address already in use")
		}
		return nil
	})
	require.NoError(t, err)
	require.Len(t, seen, 3)
	require.NotEqual(t, seen[0], seen[1])

	require.ErrorIs(t, onFreePorts(1, func([]int) error { return io.EOF }), io.EOF)
	require.ErrorIs(t, onFreePorts(1, func([]int) error { return fmt.Errorf("Failed to bind") }), errTries)
}

func TestCerts(t *testing.T) {
	c, err := MakeCerts(filepath.Join(t.TempDir(), "certs"))
	require.NoError(t, err)
	pool := func(path string) *x509.CertPool {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		p := x509.NewCertPool()
		require.True(t, p.AppendCertsFromPEM(text))
		return p
	}
	server, err := tls.LoadX509KeyPair(c.ServerCert, c.ServerKey)
	require.NoError(t, err)
	_, err = tls.LoadX509KeyPair(c.ServerPEM, c.ServerPEM)
	require.NoError(t, err)
	handshake := func(ca, cert, key string) error {
		client, err := tls.LoadX509KeyPair(cert, key)
		require.NoError(t, err)
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
			Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool(c.CA),
		})
		require.NoError(t, err)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				_, _ = conn.Write([]byte("hello"))
				_ = conn.Close()
			}
		}()
		defer func() { _ = l.Close() }()
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool(ca), Certificates: []tls.Certificate{client}})
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_, err = io.ReadFull(conn, make([]byte, 5)) // the server's verdict comes with the first read
		return err
	}
	require.NoError(t, handshake(c.CA, c.ClientCert, c.ClientKey))
	require.Error(t, handshake(c.OtherCA, c.ClientCert, c.ClientKey))
	require.Error(t, handshake(c.CA, c.OtherCert, c.OtherKey))
}

func TestCacheFolder(t *testing.T) {
	t.Setenv("SYNCHRONIZER_CACHE", "/somewhere")
	dir, err := CacheFolder()
	require.NoError(t, err)
	require.Equal(t, "/somewhere/brokers", dir)
}
