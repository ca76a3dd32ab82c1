// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"synchronizer"
	"synchronizer/internal/kube/recorded"
)

// The strategies by which a client sends changes: whole objects or differences.
const (
	strategyCopy  = "copy"
	strategyPatch = "patch"
)

// Strategies are the values of FirstSyncOptions.Strategy.
var Strategies = []string{strategyCopy, strategyPatch}

// clientSetup is what the client of a benchmark is configured with.
type clientSetup struct {
	kubeconfig string
	namespaces []string // empty means all
	kinds      []synchronizer.Kind
	watched    int // how many of the kinds are served
	strategy   string
	// reports are the kinds that the HTTP endpoint takes, without a CRD; none: there
	// is no endpoint.
	reports []synchronizer.Kind
	// podNamespace is where callers of the endpoint must have their right.
	podNamespace string
}

// deploymentsOf is the setup for the Deployments of a source.
func deploymentsOf(src source, strategy string) clientSetup {
	return clientSetup{
		kubeconfig: src.kubeconfig(), namespaces: src.namespaces(),
		kinds: []synchronizer.Kind{recorded.Deployments}, watched: 1, strategy: strategy,
	}
}

// config is the client's configuration file.
func (s clientSetup) config(server, accessKey string, healthPort, endpointPort int) ([]byte, error) {
	sections := map[string]any{"inCluster": map[string]any{
		"serverUrl": "ws://" + server, "account": account, "clusterName": clusterName,
		"accessKey": accessKey, "healthPort": healthPort,
		"includeNamespaces": s.namespaces, "resources": configured(s.kinds, s.strategy),
	}}
	if len(s.reports) > 0 {
		sections["httpEndpoint"] = map[string]any{"serverPort": endpointPort, "resources": configured(s.reports, strategyCopy)}
	}
	return json.Marshal(sections)
}

// configured are the kinds as a configuration lists them.
func configured(kinds []synchronizer.Kind, strategy string) []map[string]string {
	resources := make([]map[string]string, 0, len(kinds))
	for _, kind := range kinds {
		resources = append(resources, map[string]string{
			"group": kind.Group, "version": kind.Version, "resource": kind.Resource, "strategy": strategy,
		})
	}
	return resources
}

// startClient starts the client. It returns at once.
func (r *rig) startClient(ctx context.Context, setup clientSetup, profile string) (err error) {
	if r.programs.Client == "" {
		if r.clientProfile, err = r.profilePath(profile); err != nil {
			return err
		}
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	endpointPort := 0
	if len(setup.reports) > 0 {
		if endpointPort, err = freePort(ctx); err != nil {
			return err
		}
	}
	r.clientHealth, r.watched = fmt.Sprintf("127.0.0.1:%d", port), setup.watched
	r.endpoint = fmt.Sprintf("127.0.0.1:%d", endpointPort)
	key, err := os.ReadFile(filepath.Join(r.dataDir(), "access-key"))
	if err != nil {
		return fmt.Errorf("reading the access key: %w", err)
	}
	dir := filepath.Join(r.dir, "client")
	config, err := setup.config(r.addresses.Clients, strings.TrimSpace(string(key)), port, endpointPort)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the client's configuration: %w", err)
	}
	argv := r.argv(r.clientProfile, "agent", "--config", dir, "--kubeconfig", setup.kubeconfig)
	if r.programs.Client != "" {
		argv = []string{"env", "CONFIG=" + dir, "KUBECONFIG=" + setup.kubeconfig, r.programs.Client}
	}
	if setup.podNamespace != "" {
		argv = append([]string{"env", "POD_NAMESPACE=" + setup.podNamespace}, argv...)
	}
	r.client, err = startProcess(ctx, "client", filepath.Join(r.dir, "client.log"), argv...)
	return err
}

// freePort is a port that was free a moment ago, for a program that cannot choose
// one itself and tell. It is below those that outgoing connections take, of which a
// benchmark may have many.
func freePort(ctx context.Context) (int, error) {
	for range 1000 {
		port := 15000 + rand.IntN(17000)
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("finding a free port: %w", err)
		}
		return port, nil
	}
	return 0, errors.New("finding a free port: none after 1,000 tries")
}
