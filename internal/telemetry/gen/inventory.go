// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/internal/kube"
	"synchronizer/internal/telemetry/otlp"
)

// metric is one that a process registers.
type metric struct {
	Name, Help, Type string
	Labels           []string
	Of               string // client, server, ingester, or each
}

// inventory opens a backend and a client that have everything, runs neither, and
// reads what they have registered.
func inventory() (_ []metric, err error) {
	dir, err := os.MkdirTemp("", "telemetry")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	backend, err := openBackend(filepath.Join(dir, "backend"))
	if err != nil {
		return nil, fmt.Errorf("opening a backend: %w", err)
	}
	agent, err := openClient(filepath.Join(dir, "client"))
	if err != nil {
		return nil, fmt.Errorf("opening a client: %w", err)
	}
	all := map[string]metric{}
	for _, of := range []struct {
		name     string
		registry *prometheus.Registry
	}{{"server", backend}, {"client", agent}} {
		found, err := describe(of.registry)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if m.Of == "" {
				m.Of = of.name
			}
			if before, known := all[m.Name]; known && before.Of != m.Of {
				m.Of = "each"
			}
			all[m.Name] = m
		}
	}
	var list []metric
	for _, m := range all {
		list = append(list, m)
	}
	order := []string{"each", "client", "server", "ingester"}
	slices.SortFunc(list, func(a, b metric) int {
		if at := slices.Index(order, a.Of) - slices.Index(order, b.Of); at != 0 {
			return at
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list, nil
}

var (
	description = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{(.*?)\}, variableLabels: \{(.*?)\}\}$`)
	roleLabel   = regexp.MustCompile(`role="([a-z]+)"`)
)

// describe reads the descriptions of a registry, without those of Go and the process.
func describe(reg *prometheus.Registry) ([]metric, error) {
	families, err := reg.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering: %w", err)
	}
	types := map[string]string{}
	for _, f := range families {
		types[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		reg.Describe(descs)
	}()
	var list []metric
	for d := range descs {
		parts := description.FindStringSubmatch(d.String())
		if parts == nil {
			return nil, fmt.Errorf("a description of another form: %s", d)
		}
		m := metric{Name: strings.Trim(parts[1], `"`), Help: strings.Trim(parts[2], `"`)}
		if !strings.HasPrefix(m.Name, "synchronizer_") {
			continue
		}
		if role := roleLabel.FindStringSubmatch(parts[3]); role != nil {
			m.Of = role[1]
		}
		if parts[4] != "" {
			m.Labels = strings.Split(parts[4], ",")
		}
		if m.Type = types[m.Name]; m.Type == "" { // it has no series yet
			m.Type = "counter"
			if strings.HasSuffix(m.Name, "_seconds") {
				m.Type = "histogram"
			} else if !strings.HasSuffix(m.Name, "_total") && !strings.HasSuffix(m.Name, "_count") {
				m.Type = "gauge"
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// trace makes a process register what it does with traces on, and stops it.
func trace(p *app.Process) {
	_, stop := otlp.Start(otlp.Options{Service: "gen", Logger: p.Logger, Registerer: p.Registry, Getenv: func(name string) string {
		if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
			return "http://127.0.0.1:1"
		}
		return ""
	}})
	stop(context.Background())
}

func openBackend(dir string) (*prometheus.Registry, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	env := config.Env{}
	for key, value := range map[string]string{
		"SYNCHRONIZER_BACKEND_DATADIR": dir, "SYNCHRONIZER_BACKEND_LISTEN": "127.0.0.1:0", "SYNCHRONIZER_API_LISTEN": "127.0.0.1:0",
		"SYNCHRONIZER_BACKEND_HEALTHPORT": "0", "SYNCHRONIZER_BACKEND_ACCESSKEYS": config.AccessKeysStore,
	} {
		env = env.With(key, value)
	}
	c, _, err := config.LoadUp(env)
	if err != nil {
		return nil, err
	}
	c.Backend.Replay.Enabled = true
	if c.Backend.TLS.CertPath, c.Backend.TLS.KeyPath, err = makePair(dir); err != nil {
		return nil, err
	}
	p := app.NewProcess(io.Discard)
	trace(p)
	b, err := server.Open(context.Background(), p, c)
	if err != nil {
		return nil, err
	}
	return p.Registry, b.Close()
}

func openClient(dir string) (*prometheus.Registry, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	for name, text := range map[string]string{
		kubeconfig: `{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"x","cluster":{"server":"http://127.0.0.1:1"}}],
			"users":[{"name":"x","user":{}}],"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}]}`,
		filepath.Join(dir, "config.json"): `{"inCluster":{"serverUrl":"ws://127.0.0.1:1","account":"a","accessKey":"k","clusterName":"c","namespace":"kubescape","healthPort":0,
			"namespaceFilterConfigMapName":"namespace-filters","resources":[{"group":"","version":"v1","resource":"pods","strategy":"copy"}]},
			"httpEndpoint":{"serverPort":0,"resources":[{"group":"kubescape.io","version":"v1","resource":"runtimealerts","strategy":"copy"}]}}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if err := os.Setenv("POD_NAMESPACE", "kubescape"); err != nil { // the endpoint asks for it
		return nil, err
	}
	c, _, err := config.LoadClient(config.Env{}.With("CONFIG", dir))
	if err != nil {
		return nil, err
	}
	p := app.NewProcess(io.Discard)
	trace(p)
	cl, err := client.Open(context.Background(), p, c, kube.LoadOptions{Flag: kubeconfig}, true)
	if err != nil {
		return nil, err
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return p.Registry, cl.Run(ended) // gives back what Open took
}

// makePair writes a certificate and its key.
func makePair(dir string) (certificate, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for name, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			return "", "", err
		}
	}
	return certificate, key, nil
}
