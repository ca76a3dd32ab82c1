// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// portAttempts is how often etcd is started on another port because somebody
// else took the chosen one in between.
const portAttempts = 5

// startEtcd starts a member of one in this process and waits until it serves.
// It returns the member and the address of its client API, which speaks gRPC
// and JSON over plain HTTP on a free loopback port.
func startEtcd(ctx context.Context, s settings) (*embed.Etcd, string, error) {
	var etcd *embed.Etcd
	var err error
	for range portAttempts {
		// Its JSON gateway connects to the address that etcd was told to listen on,
		// so that must be a real port, not 0.
		var host string
		if host, err = freeAddress(ctx); err != nil {
			return nil, "", err
		}
		if etcd, err = embed.StartEtcd(etcdConfig(s, host)); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("starting etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
	case err = <-etcd.Err():
	case <-etcd.Server.StopNotify():
		err = errors.New("stopped before it was ready")
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		etcd.Close()
		return nil, "", fmt.Errorf("waiting for etcd: %w", err)
	}
	endpoint := "http://" + etcd.Clients[0].Addr().String()
	if err := writeFile(filepath.Join(s.dir, "etcd-endpoint"), []byte(endpoint+"\n")); err != nil {
		etcd.Close()
		return nil, "", fmt.Errorf("writing etcd's address: %w", err)
	}
	return etcd, endpoint, nil
}

func etcdConfig(s settings, host string) *embed.Config {
	config := embed.NewConfig()
	config.Name = "test"
	config.Dir = filepath.Join(s.dir, "etcd")
	config.UnsafeNoFsync = !s.fsync
	config.QuotaBackendBytes = s.etcdQuota
	config.LogLevel = "error"
	if s.verbose {
		config.LogLevel = "info"
	}
	config.LogOutputs = []string{"stderr"}
	client := []url.URL{{Scheme: "http", Host: host}}
	config.ListenClientUrls, config.AdvertiseClientUrls = client, client
	// A member of one has no peers, so nobody needs to know this port.
	peer := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	config.ListenPeerUrls, config.AdvertisePeerUrls = peer, peer
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	return config
}

// freeAddress returns a loopback address that nobody listens on now.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
