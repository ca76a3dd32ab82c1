// SPDX-License-Identifier: Apache-2.0

package brokers

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// PulsarOptions are what a test may want to be different.
type PulsarOptions struct {
	// Token switches authentication by token on, and authorization.
	Token bool
	// MTLS lets a client log in with its certificate too, on a broker with tokens: the
	// role is the certificate's name.
	MTLS bool
	// MaxMessageSize is the largest message in bytes; 0 means Pulsar's own, 5 MiB.
	MaxMessageSize int
	// Settings are further lines of standalone.conf.
	Settings []string
}

// PulsarAdmin is the role that may do everything on a broker with tokens.
const PulsarAdmin = "admin"

// PulsarClient is the role of Certs.ClientCert on a broker with MTLS.
const PulsarClient = "client"

// PulsarCluster is the name of the broker's cluster.
const PulsarCluster = "standalone"

// Pulsar is one standalone broker, with its bookie in the same process. Its
// addresses stay the same over Stop, Kill and Start.
type Pulsar struct {
	URL      string // pulsar://
	TLSURL   string // pulsar+ssl://
	AdminURL string // http://
	Certs    Certs

	options PulsarOptions
	secret  []byte // signs the tokens
	bookie  int
	dir     string
	java    []string
	process *process
}

// StartPulsar starts a broker that ends with the test. When the test has failed,
// the end of the broker's log is shown.
func StartPulsar(t testing.TB, options PulsarOptions) *Pulsar {
	t.Helper()
	p, err := newPulsar(t.Context(), t.TempDir(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.process.kill()
		if t.Failed() {
			t.Log("end of the broker's log:\n" + tail(p.log(), 30))
		}
	})
	return p
}

var sharedPulsar shared[*Pulsar]

// SharedPulsar is one broker per test binary. Tests use names of their own on it
// and leave it running.
func SharedPulsar(t testing.TB) *Pulsar {
	t.Helper()
	return sharedPulsar.get(t, func(dir string) (*Pulsar, func(), error) {
		p, err := newPulsar(context.WithoutCancel(t.Context()), dir, PulsarOptions{})
		if err != nil {
			return nil, nil, err
		}
		return p, func() { p.process.kill() }, nil
	})
}

func newPulsar(ctx context.Context, dir string, options PulsarOptions) (*Pulsar, error) {
	jars, err := fetch(ctx, "pulsar")
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
	p := &Pulsar{Certs: certs, options: options, dir: dir, secret: make([]byte, 32)}
	_, _ = rand.Read(p.secret)
	if err := os.WriteFile(p.secretFile(), p.secret, 0o600); err != nil {
		return nil, fmt.Errorf("writing the key of the tokens: %w", err)
	}
	// Without the optimizing compiler it starts faster, in less memory.
	p.java = []string{"-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"}
	for _, open := range []string{
		"java.base/sun.net", "java.base/java.lang", "java.base/java.nio", "java.base/jdk.internal.misc",
		"java.base/jdk.internal.platform", "java.management/sun.management", "jdk.management/com.sun.management.internal",
	} {
		p.java = append(p.java, "--add-opens", open+"=ALL-UNNAMED")
	}
	p.java = append(p.java, "-Dio.netty.tryReflectionSetAccessible=true", "-Dio.netty.leakDetectionLevel=disabled",
		"-Dlog4j2.configurationFile=file:"+filepath.Join(root, "scripts", "brokers", "log4j2.xml"), "-cp", filepath.Join(jars, "*"))
	common, err := os.ReadFile(filepath.Join(root, "scripts", "brokers", "pulsar", "standalone.conf"))
	if err != nil {
		return nil, fmt.Errorf("reading the broker's settings: %w", err)
	}
	err = onFreePorts(4, func(ports []int) error {
		p.URL, p.TLSURL, p.AdminURL = "pulsar://"+address(ports[0]), "pulsar+ssl://"+address(ports[1]), "http://"+address(ports[2])
		p.bookie = ports[3]
		own, err := p.settings(ports)
		if err != nil {
			return err
		}
		if err := os.WriteFile(p.settingsFile(), []byte(string(common)+own), 0o600); err != nil {
			return fmt.Errorf("writing the broker's settings: %w", err)
		}
		if err := os.RemoveAll(p.data()); err != nil { // made with other ports
			return fmt.Errorf("removing data: %w", err)
		}
		return p.start()
	})
	return p, err
}

func (p *Pulsar) settingsFile() string { return filepath.Join(p.dir, "standalone.conf") }
func (p *Pulsar) secretFile() string   { return filepath.Join(p.dir, "secret.key") }
func (p *Pulsar) data() string         { return filepath.Join(p.dir, "data") }
func (p *Pulsar) log() string          { return filepath.Join(p.dir, "pulsar.log") }

// settings are those that differ from broker to broker.
func (p *Pulsar) settings(ports []int) (string, error) {
	lines := []string{
		"", "brokerServicePort=" + strconv.Itoa(ports[0]),
		"brokerServicePortTls=" + strconv.Itoa(ports[1]),
		"webServicePort=" + strconv.Itoa(ports[2]),
		"tlsCertificateFilePath=" + p.Certs.ServerCert,
		"tlsKeyFilePath=" + p.Certs.ServerKey,
		"tlsTrustCertsFilePath=" + p.Certs.CA,
	}
	if size := p.options.MaxMessageSize; size > 0 {
		// the bookie takes a frame with what is around the message
		lines = append(lines, "maxMessageSize="+strconv.Itoa(size), "nettyMaxFrameSizeBytes="+strconv.Itoa(max(size, 5<<20)+10<<10))
	} else {
		lines = append(lines, "nettyMaxFrameSizeBytes="+strconv.Itoa(5<<20+10<<10))
	}
	if p.options.Token {
		token, err := p.sign(PulsarAdmin)
		if err != nil {
			return "", err
		}
		const provider = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
		providers := provider + "Token"
		if p.options.MTLS {
			providers += "," + provider + "Tls"
		}
		lines = append(lines,
			"authenticationEnabled=true", "authorizationEnabled=true", "authenticationProviders="+providers,
			"tokenSecretKey=file://"+p.secretFile(), "superUserRoles="+PulsarAdmin,
			"brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken",
			"brokerClientAuthenticationParameters=token:"+token)
	}
	return strings.Join(append(lines, p.options.Settings...), "\n") + "\n", nil
}

func (p *Pulsar) start() error {
	process, err := startProcess(command{
		name: "Pulsar", path: "java", log: p.log(),
		args: append(append([]string{}, p.java...), "org.apache.pulsar.PulsarStandaloneStarter",
			"-c", p.settingsFile(), "-nfw", "-nss", "-a", "127.0.0.1", "--bookkeeper-port="+strconv.Itoa(p.bookie),
			"--metadata-dir="+filepath.Join(p.data(), "metadata"), "--bookkeeper-dir="+filepath.Join(p.data(), "bookkeeper")),
	})
	if err != nil {
		return err
	}
	p.process = process
	return process.await(p.healthy)
}

// healthy asks the broker to publish a message and to read it again.
func (p *Pulsar) healthy() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := p.call(ctx, http.MethodGet, "brokers/health", "")
	return err == nil
}

// Token logs a role in, on a broker with tokens.
func (p *Pulsar) Token(t testing.TB, role string) string {
	t.Helper()
	token, err := p.sign(role)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (p *Pulsar) sign(role string) (string, error) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{Subject: role}).SignedString(p.secret)
	if err != nil {
		return "", fmt.Errorf("signing token: %w", err)
	}
	return token, nil
}

// Admin calls the admin service, with all rights: path is what stands behind
// /admin/v2/, body JSON or nothing. It returns the answer's text.
func (p *Pulsar) Admin(t testing.TB, method, path, body string) string {
	t.Helper()
	answer, err := p.call(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (p *Pulsar) call(ctx context.Context, method, path, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, p.AdminURL+"/admin/v2/"+path, strings.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("calling Pulsar's admin service: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	if p.options.Token {
		token, err := p.sign(PulsarAdmin)
		if err != nil {
			return "", err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	request.Close = true // no connection is left behind
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("calling Pulsar's admin service: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("reading the answer of Pulsar's admin service: %w", err)
	}
	if response.StatusCode >= 300 {
		return "", fmt.Errorf("%s %s: Pulsar's admin service answers %s: %s", method, path, response.Status, answer)
	}
	return string(answer), nil
}

// Stop ends the broker in order.
func (p *Pulsar) Stop(t testing.TB) {
	t.Helper()
	if err := p.process.stop(); err != nil {
		t.Fatal(err)
	}
}

// Kill ends it with SIGKILL.
func (p *Pulsar) Kill(t testing.TB) {
	t.Helper()
	p.process.kill()
}

// Start starts it again, with its data and addresses, and returns when it is
// ready.
func (p *Pulsar) Start(t testing.TB) {
	t.Helper()
	if p.process.running() {
		t.Fatal("the broker runs already")
	}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
}
