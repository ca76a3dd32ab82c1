// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// settings is what the run subcommand was told.
type settings struct {
	// dir holds certificates, data and the files that tell others how to connect.
	dir string
	// port of the API server on 127.0.0.1; 0 = the port this dir had last, else a free one.
	port int
	// exitWithStdin ends the program when its standard input closes, which the
	// kernel does when the starter dies, however it dies.
	exitWithStdin bool
	// fsync makes etcd sync its log. Off by default: data then survive the death
	// of the process, not that of the machine.
	fsync bool
	// etcdQuota is etcd's limit in bytes; 0 = etcd's default of 2 GiB.
	etcdQuota int64
	// verbose keeps etcd's informational messages.
	verbose bool
	// extra are flags for kube-apiserver, placed after ours.
	extra []string
}

func parseSettings(args []string) (settings, error) {
	var s settings
	fs := flag.NewFlagSet("kubernetes run", flag.ContinueOnError)
	fs.StringVar(&s.dir, "dir", "", "folder for data, certificates and kubeconfig; running again in it continues with its data")
	fs.IntVar(&s.port, "port", 0, "port of the API server on 127.0.0.1 (0 = as last time in this folder, else a free one)")
	fs.BoolVar(&s.exitWithStdin, "exit-with-stdin", false, "end when standard input closes")
	fs.BoolVar(&s.fsync, "fsync", false, "let etcd sync its log to the disk")
	fs.Int64Var(&s.etcdQuota, "etcd-quota", 0, "etcd space quota in bytes (0 = 2 GiB)")
	fs.BoolVar(&s.verbose, "verbose", false, "log etcd's informational messages")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	s.extra = fs.Args()
	if s.dir == "" {
		return s, errors.New("kubernetes run: --dir is required")
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return s, fmt.Errorf("resolving --dir: %w", err)
	}
	s.dir = dir
	return s, nil
}

// cancelAtEOF returns a context that ends with ctx or when r ends.
func cancelAtEOF(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	return ctx
}

// writeFile puts data at path at once: a reader sees all of it or none.
func writeFile(path string, data []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
