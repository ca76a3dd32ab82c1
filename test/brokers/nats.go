// SPDX-License-Identifier: Apache-2.0

package brokers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// NATSOptions are what a test may want to be different.
type NATSOptions struct {
	TLS, MTLS bool // MTLS: a client certificate is required
	// At most one of these ways to log in.
	Password, Token, NKey, Creds bool
	// MaxPayload in bytes; 0 means the server's default of 1 MiB.
	MaxPayload int
	// NoJetStream leaves it out.
	NoJetStream bool
	// Settings are further lines of the configuration file.
	Settings []string
}

// What the server lets in, with NATSOptions.Password and NATSOptions.Token.
const (
	NATSUser     = "app"
	NATSPassword = "app-secret"
	NATSToken    = "app-token"
)

// NATS is one server with JetStream. Its address stays the same over Stop, Kill
// and Start.
type NATS struct {
	URL   string
	Certs Certs
	// Files of a seed and of credentials: of a client that is let in with
	// NATSOptions.NKey and NATSOptions.Creds, and of one that is not.
	NKeySeed, OtherNKeySeed string
	Creds, OtherCreds       string

	dir, server string
	process     *process
}

// StartNATS starts a server that ends with the test. When the test has failed, the
// end of the server's log is shown.
func StartNATS(t testing.TB, options NATSOptions) *NATS {
	t.Helper()
	n, err := newNATS(t.Context(), t.TempDir(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.process.kill()
		if t.Failed() {
			t.Log("end of the server's log:\n" + tail(n.log(), 30))
		}
	})
	return n
}

var sharedNATS shared[*NATS]

// SharedNATS is one server per test binary, with the default limit of 1 MiB and
// without login. Tests use prefixes of their own on it and leave it running.
func SharedNATS(t testing.TB) *NATS {
	t.Helper()
	return sharedNATS.get(t, func(dir string) (*NATS, func(), error) {
		n, err := newNATS(context.WithoutCancel(t.Context()), dir, NATSOptions{})
		if err != nil {
			return nil, nil, err
		}
		return n, func() { n.process.kill() }, nil
	})
}

func newNATS(ctx context.Context, dir string, options NATSOptions) (*NATS, error) {
	server, err := fetch(ctx, "nats")
	if err != nil {
		return nil, err
	}
	certs, err := MakeCerts(filepath.Join(dir, "certs"))
	if err != nil {
		return nil, err
	}
	n := &NATS{Certs: certs, dir: dir, server: server}
	settings, err := n.settings(options)
	if err != nil {
		return nil, err
	}
	err = onFreePorts(1, func(ports []int) error {
		n.URL = "nats://" + address(ports[0])
		text := fmt.Sprintf("listen: %q\n%s\n", address(ports[0]), settings)
		if err := os.WriteFile(n.file("nats.conf"), []byte(text), 0o600); err != nil {
			return fmt.Errorf("writing the server's settings: %w", err)
		}
		return n.start()
	})
	return n, err
}

func (n *NATS) file(name string) string { return filepath.Join(n.dir, name) }
func (n *NATS) log() string             { return n.file("nats.log") }

// settings are those of the configuration file but for the address.
func (n *NATS) settings(o NATSOptions) (string, error) {
	lines := append([]string{}, o.Settings...)
	if !o.NoJetStream {
		// Streams reserve what they may hold, and a shared server has many: not all
		// would fit into the free part of a small disk, which is the default limit.
		lines = append(lines, fmt.Sprintf("jetstream { store_dir: %q, max_file: 100TB }", n.file("data")))
	}
	if o.MaxPayload > 0 {
		lines = append(lines, fmt.Sprintf("max_payload: %d", o.MaxPayload))
	}
	if o.TLS || o.MTLS {
		lines = append(lines, fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: %t }",
			n.Certs.ServerCert, n.Certs.ServerKey, n.Certs.CA, o.MTLS))
	}
	switch {
	case o.Password:
		lines = append(lines, fmt.Sprintf("authorization { user: %q, password: %q }", NATSUser, NATSPassword))
	case o.Token:
		lines = append(lines, fmt.Sprintf("authorization { token: %q }", NATSToken))
	case o.NKey:
		public, err := n.seeds()
		if err != nil {
			return "", fmt.Errorf("making nkeys: %w", err)
		}
		lines = append(lines, fmt.Sprintf("authorization { users: [ { nkey: %q } ] }", public))
	case o.Creds:
		trust, err := n.credentials()
		if err != nil {
			return "", fmt.Errorf("making credentials: %w", err)
		}
		lines = append(lines, trust...)
	}
	return strings.Join(lines, "\n"), nil
}

// seeds writes the seeds of two users and returns the public key of the first.
func (n *NATS) seeds() (public string, err error) {
	n.NKeySeed, n.OtherNKeySeed = n.file("user.nk"), n.file("other.nk")
	for _, path := range []string{n.NKeySeed, n.OtherNKeySeed} {
		user, err := nkeys.CreateUser()
		if err != nil {
			return "", err
		}
		seed, err := user.Seed()
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(path, seed, 0o600); err != nil {
			return "", err
		}
		if path == n.NKeySeed {
			if public, err = user.PublicKey(); err != nil {
				return "", err
			}
		}
	}
	return public, nil
}

// credentials makes an operator with an account that may use JetStream, and a user
// of it; and another user, of an account that the server does not know. The result
// makes the server trust the operator.
func (n *NATS) credentials() (lines []string, err error) {
	n.Creds, n.OtherCreds = n.file("user.creds"), n.file("other.creds")
	operator, operatorErr := nkeys.CreateOperator()
	system, systemErr := nkeys.CreateAccount()
	account, accountErr := nkeys.CreateAccount()
	stranger, strangerErr := nkeys.CreateAccount()
	if err := errors.Join(operatorErr, systemErr, accountErr, strangerErr); err != nil {
		return nil, err
	}
	operatorClaims := jwt.NewOperatorClaims(publicKey(operator))
	operatorClaims.Name = "operator"
	operatorClaims.SystemAccount = publicKey(system)
	operatorToken, err := operatorClaims.Encode(operator)
	if err != nil {
		return nil, err
	}
	lines = append(lines, fmt.Sprintf("operator: %s", operatorToken), "resolver: MEMORY", "resolver_preload {")
	for _, key := range []nkeys.KeyPair{system, account} {
		claims := jwt.NewAccountClaims(publicKey(key))
		claims.Name = "account"
		if key == account {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
				MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
				MaxAckPending: jwt.NoLimit, MemoryMaxStreamBytes: jwt.NoLimit, DiskMaxStreamBytes: jwt.NoLimit,
			}
		}
		text, err := claims.Encode(operator)
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%s: %s", publicKey(key), text))
	}
	lines = append(lines, "}")
	return lines, errors.Join(writeCreds(n.Creds, account), writeCreds(n.OtherCreds, stranger))
}

// publicKey cannot fail for a key that was just made.
func publicKey(key nkeys.KeyPair) string {
	text, _ := key.PublicKey()
	return text
}

func writeCreds(path string, account nkeys.KeyPair) error {
	user, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	seed, err := user.Seed()
	if err != nil {
		return err
	}
	token, err := jwt.NewUserClaims(publicKey(user)).Encode(account)
	if err != nil {
		return err
	}
	text, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func (n *NATS) start() error {
	before, _ := os.ReadFile(n.log())
	p, err := startProcess(command{name: "NATS", path: n.server, args: []string{"-c", n.file("nats.conf")}, log: n.log()})
	if err != nil {
		return err
	}
	n.process = p
	return p.await(func() bool {
		log, _ := os.ReadFile(n.log())
		return len(log) > len(before) && strings.Contains(string(log[len(before):]), "Server is ready")
	})
}

// Stop ends the server in order.
func (n *NATS) Stop(t testing.TB) {
	t.Helper()
	if err := n.process.stop(); err != nil {
		t.Fatal(err)
	}
}

// Kill ends it with SIGKILL.
func (n *NATS) Kill(t testing.TB) {
	t.Helper()
	n.process.kill()
}

// Start starts it again, with its data and address, and returns when it is ready.
func (n *NATS) Start(t testing.TB) {
	t.Helper()
	if n.process.running() {
		t.Fatal("the server runs already")
	}
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
}

// Limit changes max_payload, from the next Start on.
func (n *NATS) Limit(t testing.TB, maxPayload int) {
	t.Helper()
	text, err := os.ReadFile(n.file("nats.conf"))
	if err == nil {
		err = os.WriteFile(n.file("nats.conf"), append(text, fmt.Sprintf("max_payload: %d\n", maxPayload)...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
