// SPDX-License-Identifier: Apache-2.0

package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience is how long a server may take to start or to stop.
const patience = 60 * time.Second

// Server is one PostgreSQL server. Its methods are used by one goroutine.
type Server struct {
	dir      string
	settings []string
	owner    *owner
	process  *process // nil while it is stopped
	mounts   []string
	number   int // of databases made
}

// newServer makes a server with an empty data folder, and starts it.
func newServer(settings []string) (_ *Server, err error) {
	owner, err := serverOwner()
	if err != nil {
		return nil, err
	}
	dir, err := makeFolder(owner)
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, settings: settings, owner: owner}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove())
		}
	}()
	initdb, err := binary("initdb")
	if err != nil {
		return nil, err
	}
	// No password is asked: who can enter the folder of the socket is on this machine.
	cmd := exec.Command(initdb, "-D", s.data(), "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
	cmd.Dir, cmd.SysProcAttr = dir, attributes(owner)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("making a PostgreSQL data folder: %w\n%s", err, out)
	}
	return s, s.start()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// URL names a database of the server; "postgres" is always there.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", Path: "/" + database, RawQuery: url.Values{
		"host": {s.dir}, "port": {"5432"}, "user": {"postgres"},
	}.Encode()}
	return u.String()
}

// Socket is the file that the server listens on.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// process is a running server.
type process struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}
}

// start starts the server and waits until it answers. After a kill its earlier
// processes may still hold the memory that they shared: then again.
func (s *Server) start() error {
	limit := time.Now().Add(patience)
	for {
		p, err := s.launch()
		if err != nil {
			return err
		}
		s.process = p
		if err = s.await(limit); err == nil {
			return nil
		}
		s.process = nil
		_ = p.cmd.Process.Kill()
		<-p.ended
		if time.Now().After(limit) || !errors.Is(err, errEnded) {
			out, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("starting PostgreSQL: %w\n%s", err, tail(out))
		}
	}
}

func (s *Server) launch() (*process, error) {
	postgres, err := binary("postgres")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return nil, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	args := []string{
		"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "port=5432", "-c", "max_connections=200",
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "autovacuum_naptime=1s",
	}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	p := &process{cmd: exec.Command(postgres, args...), log: log, ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.SysProcAttr, p.cmd.Stdout, p.cmd.Stderr = s.dir, attributes(s.owner), log, log
	started := make(chan error, 1)
	go func() {
		defer close(p.ended)
		defer func() { _ = log.Close() }()
		// The kernel's signal at the parent's end means the thread that started the
		// process, so that thread has to stay.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	return p, nil
}

var errEnded = errors.New("the server ended by itself")

// await waits until the server takes queries.
func (s *Server) await(limit time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	for {
		err := s.exec(ctx, "postgres", "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-s.process.ended:
			return errEnded
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// signal sends one to the server and waits for its end.
func (s *Server) signal(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	p := s.process
	s.process = nil
	_ = p.cmd.Process.Signal(signal)
	select {
	case <-p.ended:
		return nil
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return errors.New("stopping PostgreSQL: it did not end in time and was killed")
	}
}

// remove ends the server and removes what it had.
func (s *Server) remove() error {
	errs := []error{s.signal(syscall.SIGQUIT)}
	for _, dir := range s.mounts {
		errs = append(errs, unmount(dir))
	}
	// Its other processes may write for a moment after a kill.
	limit := time.Now().Add(patience)
	err := os.RemoveAll(s.dir)
	for err != nil && time.Now().Before(limit) {
		time.Sleep(10 * time.Millisecond) // until they are gone
		err = os.RemoveAll(s.dir)
	}
	return errors.Join(append(errs, err)...)
}

// exec runs one statement in a database.
func (s *Server) exec(ctx context.Context, database, statement string, args ...any) error {
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement, args...)
	return errors.Join(err, conn.Close(ctx))
}

func sizeOption(size int64) string { return fmt.Sprintf("size=%d,mode=0777", size) }

// tail is the end of a log.
func tail(log []byte) string {
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	if len(lines) > 15 {
		lines = lines[len(lines)-15:]
	}
	return strings.TrimSpace(string(bytes.Join(lines, []byte("\n"))))
}
