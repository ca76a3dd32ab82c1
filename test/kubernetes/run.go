// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// portPatience is how long a port of the last run may stay taken.
	portPatience = 10 * time.Second
	// startPatience is how long the API server may take to be ready. It needs
	// about 3 s alone and several times that on a machine that is busy building.
	startPatience = 3 * time.Minute
	// stopPatience is how long requests in flight may delay the end.
	stopPatience = 5 * time.Second
)

// run serves until ctx ends, which is no error. When everything answers it writes
// DIR/kubeconfig and then the line "ready <url>" to out.
func run(ctx context.Context, s settings, out io.Writer) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("making folder: %w", err)
	}
	files, err := makeCertificates(s.dir)
	if err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	token, tokenFile, err := adminToken(s.dir)
	if err != nil {
		return fmt.Errorf("reading admin token: %w", err)
	}
	listener, err := listen(ctx, s)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // kube-apiserver closes it too, if it came that far
	etcd, endpoint, err := startEtcd(ctx, s)
	if err != nil {
		return err
	}
	// Closing waits for etcd's clients, so it is left out where kube-apiserver hangs:
	// what etcd has acknowledged is with the kernel and survives.
	closeEtcd := true
	defer func() {
		if closeEtcd {
			etcd.Close()
		}
	}()

	ended := make(chan error, 1)
	flags := append(apiServerFlags(files, endpoint, tokenFile), s.extra...)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	go func() { ended <- serveAPI(serving, listener, flags) }()

	announced := make(chan error, 1)
	go func() { announced <- announce(serving, s, listener.Addr(), files, token, out) }()
	for {
		select {
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("running kube-apiserver: ended unexpectedly: %w", err)
		case err := <-etcd.Err():
			return fmt.Errorf("running etcd: %w", err)
		case err := <-announced:
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("waiting for kube-apiserver: %w", err)
			}
			announced = nil
		case <-ctx.Done():
			select {
			case <-ended:
			case <-time.After(stopPatience):
				closeEtcd = false
			}
			return nil
		}
	}
}

// announce waits for the API server and tells the world where it is.
func announce(ctx context.Context, s settings, address net.Addr, files certificates, token string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	ca, err := os.ReadFile(files.ca.cert)
	if err != nil {
		return err
	}
	url := "https://" + address.String()
	if err := waitUntilReady(ctx, url, token, ca); err != nil {
		return err
	}
	if err := writeKubeconfig(filepath.Join(s.dir, "kubeconfig"), url, token, ca); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "ready", url)
	return err
}

// listen opens the API server's port on 127.0.0.1 and records it for the next run.
func listen(ctx context.Context, s settings) (net.Listener, error) {
	file := filepath.Join(s.dir, "port")
	port := s.port
	if port == 0 {
		if text, err := os.ReadFile(file); err == nil {
			if port, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
				return nil, fmt.Errorf("reading last port: %w", err)
			}
		}
	}
	listener, err := listenPatiently(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	_, last, err := net.SplitHostPort(listener.Addr().String())
	if err == nil {
		err = writeFile(file, []byte(last+"\n"))
	}
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("recording port: %w", err)
	}
	return listener, nil
}

// listenPatiently tries again while the address is in use: the port of the last
// run may serve as source port of some short-lived connection.
func listenPatiently(ctx context.Context, address string) (net.Listener, error) {
	deadline := time.Now().Add(portPatience)
	var config net.ListenConfig
	for {
		listener, err := config.Listen(ctx, "tcp4", address)
		if err == nil {
			return listener, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return nil, fmt.Errorf("opening port: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
