// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresServer is a PostgreSQL server of the benchmark's own, with a folder of
// its own.
type postgresServer struct {
	dir, bin, version string
	uid, gid          int // of the user that it runs as; -1: this one
	cmd               *exec.Cmd
	ended             chan struct{}
}

func startPostgres(ctx context.Context) (_ *postgresServer, err error) {
	s := &postgresServer{uid: -1}
	if s.bin, err = postgresPrograms(); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 { // as which it does not run
		for _, name := range []string{"postgres", "nobody"} {
			if found, err := user.Lookup(name); err == nil {
				s.uid, _ = strconv.Atoi(found.Uid)
				s.gid, _ = strconv.Atoi(found.Gid)
				break
			}
		}
	}
	if s.dir, err = os.MkdirTemp("/tmp", "pgbench"); err != nil { // the name of a socket must be short
		return nil, fmt.Errorf("making a folder for PostgreSQL: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove())
		}
	}()
	if s.uid >= 0 {
		if err := os.Chown(s.dir, s.uid, s.gid); err != nil {
			return nil, fmt.Errorf("making a folder for PostgreSQL: %w", err)
		}
	}
	made := s.command(ctx, "initdb", "-D", s.data(), "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8")
	if out, err := made.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("making a PostgreSQL data folder: %w\n%s", err, out)
	}
	return s, s.start(ctx)
}

// postgresPrograms is the folder of the newest server that is installed.
func postgresPrograms() (string, error) {
	newest, best := "", 0
	places, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	for _, place := range places {
		dir := filepath.Dir(place)
		if version, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil && version > best {
			newest, best = dir, version
		}
	}
	if newest != "" {
		return newest, nil
	}
	if place, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(place), nil
	}
	return "", errors.New("finding PostgreSQL: it is not installed (on Debian: apt-get install postgresql); a server that runs can be named with --postgres URL")
}

func (s *postgresServer) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = ownGroupAs(s.uid, s.gid)
	return cmd
}

func (s *postgresServer) data() string { return filepath.Join(s.dir, "data") }

func (s *postgresServer) url() string {
	u := url.URL{Scheme: "postgres", Path: "/postgres", RawQuery: url.Values{"host": {s.dir}, "port": {"5432"}, "user": {"postgres"}}.Encode()}
	return u.String()
}

func (s *postgresServer) start(ctx context.Context) error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := s.command(context.WithoutCancel(ctx), "postgres", "-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "port=5432")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	ended := make(chan struct{})
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("starting PostgreSQL: it ended\n%s", text)
		case <-ctx.Done():
			return fmt.Errorf("starting PostgreSQL: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask connects and reads the version.
func (s *postgresServer) ask(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url())
	if err != nil {
		return err
	}
	s.version = "PostgreSQL " + conn.PgConn().ParameterStatus("server_version")
	return conn.Close(ctx)
}

func (s *postgresServer) end() error {
	if s.cmd == nil {
		return nil
	}
	cmd := s.cmd
	s.cmd = nil
	_ = cmd.Process.Signal(os.Interrupt) // fast shutdown
	select {
	case <-s.ended:
		return nil
	case <-time.After(stopTimeout):
		_ = cmd.Process.Kill()
		<-s.ended
		return errors.New("stopping PostgreSQL: it did not end in time and was killed")
	}
}

func (s *postgresServer) restart(ctx context.Context) error {
	if err := s.end(); err != nil {
		return err
	}
	return s.start(ctx)
}

func (s *postgresServer) remove() error { return errors.Join(s.end(), os.RemoveAll(s.dir)) }
