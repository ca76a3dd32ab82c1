// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/config"
	"synchronizer/test/brokers"
	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/proxy"
	"synchronizer/test/pgtest"
)

// writeConfig writes the config.json of a process of a backend that shares queue
// and database with others, and returns its folder.
func writeConfig(t testing.TB, on queueSetup, database string, backend map[string]any) string {
	t.Helper()
	c := config.Default()
	on(c)
	whole := map[string]any{
		"healthPort": 0, "allowAnonymous": true, "dataDir": filepath.Join(t.TempDir(), "data"),
		"messageQueue": c.Backend.MessageQueue,
	}
	if c.Backend.PulsarConfig != nil {
		whole["pulsarConfig"] = c.Backend.PulsarConfig
	}
	listen := backend["api"]
	for key, value := range backend {
		if key != "api" {
			whole[key] = value
		}
	}
	text, err := json.Marshal(map[string]any{
		"backend": whole, "api": map[string]any{"listen": listen}, "store": map[string]any{"postgres": map[string]any{"url": database}},
	})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
	return dir
}

// Two servers and two ingesters, each a process of its own, on one broker and one
// PostgreSQL. One of each is killed; the others go on, and nothing is missing.
func TestSeparateProcesses(t *testing.T) {
	overBrokers(t, func(t *testing.T, on queueSetup) {
		kubetest.Require(t, startErr)
		w := newWorld(t, shared, configMaps, deployments)
		w.createMany(configMaps, "settings", 60, 2000)
		database := pgtest.Database(t)
		var servers []*process
		var backends []*backend
		for range 2 {
			at, data := reserve(t), filepath.Join(t.TempDir(), "data")
			dir := writeConfig(t, on, database, map[string]any{"listen": at.clients, "api": at.api, "dataDir": data})
			servers = append(servers, startProcess(t, "server", "--config", dir))
			b := &backend{clients: at.clients, tokenFile: filepath.Join(data, "api-token")}
			eventually(t, "the server has made its token", func() bool {
				_, err := os.Stat(b.tokenFile)
				return err == nil
			})
			b.api = newAPI(t, at.api, secret(t, data, "api-token"))
			backends = append(backends, b)
		}
		ingester := writeConfig(t, on, database, nil)
		first := startProcess(t, "ingester", "--config", ingester)
		startProcess(t, "ingester", "--config", ingester)

		network := proxy.New(t, backends[0].clients)
		client := w.startClient(target{address: network.Addr()})
		w.agree(backends[1])
		w.change(configMaps, names("settings", 0, 10)...)
		first.kill()
		w.change(configMaps, names("settings", 5, 20)...)
		w.delete(configMaps, names("settings", 20, 30)...)
		w.create(deployments, "web")
		w.agree(backends[0])

		network.SetTarget(backends[1].clients)
		servers[0].kill()
		w.change(configMaps, names("settings", 30, 40)...)
		w.delete(configMaps, names("settings", 40, 50)...)
		w.agree(backends[1])
		client.runs(t)
	})
}

// A broker that is stopped, and one that is killed, in the middle of changes:
// what happened meanwhile arrives when it is back, without help.
func TestBrokerInterrupted(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	type broker interface {
		Stop(testing.TB)
		Kill(testing.TB)
		Start(testing.TB)
	}
	for name, start := range map[string]func(t *testing.T) (broker, queueSetup){
		config.QueueNATS: func(t *testing.T) (broker, queueSetup) {
			b := brokers.StartNATS(t, brokers.NATSOptions{})
			return b, overNATS(b.URL, "synchronizer")
		},
		config.QueueKafka: func(t *testing.T) (broker, queueSetup) {
			b := brokers.StartKafka(t, brokers.KafkaOptions{})
			return b, overKafka(b.Plain, "synchronizer")
		},
		config.QueuePulsar: func(t *testing.T) (broker, queueSetup) {
			b := brokers.StartPulsar(t, brokers.PulsarOptions{})
			return b, overPulsar(b.URL, b.AdminURL, "synchronizer")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker, on := start(t)
			w := newWorld(t, shared, configMaps)
			w.createMany(configMaps, "settings", 60, 2000)
			b := startChanged(t, t.TempDir(), keyed, on)
			client := w.startClient(to(b))
			w.agree(b)
			for _, end := range []string{"stopped", "killed"} {
				w.change(configMaps, names("settings", 0, 30)...)
				if end == "stopped" {
					broker.Stop(t)
				} else {
					broker.Kill(t)
				}
				w.change(configMaps, names("settings", 20, 40)...)
				w.delete(configMaps, "settings-040")
				w.create(configMaps, "made-while-"+end)
				broker.Start(t)
				w.agree(b)
				w.create(configMaps, "settings-040")
				w.agree(b)
			}
			client.runs(t)
		})
	}
}
