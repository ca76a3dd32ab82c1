// SPDX-License-Identifier: Apache-2.0

package brokers

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// KafkaOptions are what a test may want to be different.
type KafkaOptions struct {
	// AutoCreate lets the broker make topics that a client asks for. Off by default,
	// other than in Kafka itself.
	AutoCreate bool
	// Settings are further lines of server.properties.
	Settings []string
}

// The user of the listeners with SASL, for PLAIN and SCRAM alike.
const (
	KafkaUser     = "app"
	KafkaPassword = "app-secret"
)

// Kafka is one broker, which is its own controller. Its addresses stay the same
// over Stop, Kill and Start.
type Kafka struct {
	Plain   string // no TLS, no credentials
	SASL    string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 without TLS
	SASLTLS string // the same with TLS
	TLS     string // TLS, no credentials
	MTLS    string // TLS, client certificate required
	Certs   Certs

	dir     string // the data and server.properties
	java    []string
	process *process
}

// StartKafka starts a broker that ends with the test. When the test has failed,
// the end of the broker's log is shown.
func StartKafka(t testing.TB, options KafkaOptions) *Kafka {
	t.Helper()
	k, err := newKafka(t.Context(), t.TempDir(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.process.kill()
		if t.Failed() {
			t.Log("end of the broker's log:\n" + tail(k.log(), 30))
		}
	})
	return k
}

var sharedKafka shared[*Kafka]

// SharedKafka is one broker per test binary, which creates topics that a client
// asks for, as Kafka does by default. Tests use names of their own on it and leave
// it running.
func SharedKafka(t testing.TB) *Kafka {
	t.Helper()
	return sharedKafka.get(t, func(dir string) (*Kafka, func(), error) {
		k, err := newKafka(context.WithoutCancel(t.Context()), dir, KafkaOptions{AutoCreate: true})
		if err != nil {
			return nil, nil, err
		}
		return k, func() { k.process.kill() }, nil
	})
}

func newKafka(ctx context.Context, dir string, options KafkaOptions) (*Kafka, error) {
	jars, err := fetch(ctx, "kafka")
	if err != nil {
		return nil, err
	}
	root, err := checkout()
	if err != nil {
		return nil, err
	}
	certs, err := MakeCerts(filepath.Join(dir, "certs"))
	if err != nil {
		return nil, err
	}
	k := &Kafka{Certs: certs, dir: dir, java: []string{
		// Without the optimizing compiler it starts faster, in half the memory.
		"-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dlog4j2.configurationFile=file:" + filepath.Join(root, "scripts", "brokers", "log4j2.xml"),
		"-cp", filepath.Join(jars, "*"),
	}}
	common, err := os.ReadFile(filepath.Join(root, "scripts", "brokers", "kafka", "server.properties"))
	if err != nil {
		return nil, fmt.Errorf("reading the broker's settings: %w", err)
	}
	err = onFreePorts(6, func(ports []int) error {
		k.Plain, k.SASL, k.SASLTLS, k.MTLS = address(ports[0]), address(ports[1]), address(ports[2]), address(ports[3])
		k.TLS = address(ports[5])
		settings := string(common) + k.listeners(address(ports[4])) + strings.Join(options.Settings, "\n") + "\n"
		settings += fmt.Sprintf("auto.create.topics.enable=%t\n", options.AutoCreate)
		if err := os.WriteFile(k.settings(), []byte(settings), 0o600); err != nil {
			return fmt.Errorf("writing the broker's settings: %w", err)
		}
		if err := os.RemoveAll(k.data()); err != nil { // made with other ports
			return fmt.Errorf("removing data: %w", err)
		}
		if err := k.format(ctx); err != nil {
			return err
		}
		return k.start()
	})
	return k, err
}

func (k *Kafka) settings() string { return filepath.Join(k.dir, "server.properties") }
func (k *Kafka) data() string     { return filepath.Join(k.dir, "data") }
func (k *Kafka) log() string      { return filepath.Join(k.dir, "kafka.log") }

// listeners are the settings that differ from broker to broker.
func (k *Kafka) listeners(controller string) string {
	client := "PLAINTEXT://" + k.Plain + ",SASL://" + k.SASL + ",SASLSSL://" + k.SASLTLS + ",SSL://" + k.TLS + ",MTLS://" + k.MTLS
	lines := []string{
		"", "controller.quorum.voters=1@" + controller,
		"listeners=" + client + ",CONTROLLER://" + controller,
		"advertised.listeners=" + client,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,SASLSSL:SASL_SSL,SSL:SSL,MTLS:SSL",
		"log.dirs=" + k.data(),
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + k.Certs.ServerPEM,
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + k.Certs.CA,
		"listener.name.saslssl.ssl.client.auth=none",
		"listener.name.ssl.ssl.client.auth=none",
		"listener.name.mtls.ssl.client.auth=required",
	}
	for _, name := range []string{"sasl", "saslssl"} {
		const security = "org.apache.kafka.common.security."
		lines = append(lines,
			fmt.Sprintf(`listener.name.%s.plain.sasl.jaas.config=%splain.PlainLoginModule required user_%s="%s";`, name, security, KafkaUser, KafkaPassword),
			fmt.Sprintf(`listener.name.%s.scram-sha-256.sasl.jaas.config=%sscram.ScramLoginModule required;`, name, security),
			fmt.Sprintf(`listener.name.%s.scram-sha-512.sasl.jaas.config=%sscram.ScramLoginModule required;`, name, security))
	}
	return strings.Join(lines, "\n") + "\n"
}

// format prepares the folder of the data and makes the user.
func (k *Kafka) format(ctx context.Context) error {
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	id[0] &= 0x7f // no dash at the beginning of the text
	user := "=[name=" + KafkaUser + ",password=" + KafkaPassword + "]"
	out, err := exec.CommandContext(ctx, "java", append(append([]string{}, k.java...), "kafka.tools.StorageTool", "format",
		"-t", base64.RawURLEncoding.EncodeToString(id), "-c", k.settings(),
		"--add-scram", "SCRAM-SHA-256"+user, "--add-scram", "SCRAM-SHA-512"+user)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("preparing the folder of Kafka: %w\n%s", err, out)
	}
	return nil
}

func (k *Kafka) start() error {
	before, _ := os.ReadFile(k.log())
	p, err := startProcess(command{
		name: "Kafka", path: "java", log: k.log(),
		args: append(append([]string{}, k.java...), "kafka.Kafka", k.settings()),
	})
	if err != nil {
		return err
	}
	k.process = p
	return p.await(func() bool {
		log, _ := os.ReadFile(k.log())
		return len(log) > len(before) && strings.Contains(string(log[len(before):]), "Kafka Server started")
	})
}

// Stop ends the broker in order.
func (k *Kafka) Stop(t testing.TB) {
	t.Helper()
	if err := k.process.stop(); err != nil {
		t.Fatal(err)
	}
}

// Kill ends it with SIGKILL.
func (k *Kafka) Kill(t testing.TB) {
	t.Helper()
	k.process.kill()
}

// Start starts it again, with its data and addresses, and returns when it is
// ready.
func (k *Kafka) Start(t testing.TB) {
	t.Helper()
	if k.process.running() {
		t.Fatal("the broker runs already")
	}
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
}
