// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/queue/queuetest"
	"synchronizer/test/brokers"
)

func TestMain(m *testing.M) { os.Exit(brokers.Main(m)) }

// names make topics of tests differ on a shared broker.
var names atomic.Int64

const testTenant, testNamespace = "armo", "kubescape"

// configOn is a configuration with topics of its own.
func configOn(t *testing.T, p *brokers.Pulsar) Config {
	n := names.Add(1)
	return Config{
		URL: p.URL, AdminURL: p.AdminURL, Tenant: testTenant, Namespace: testNamespace,
		OutTopic: fmt.Sprintf("out-%d", n), InTopic: fmt.Sprintf("in-%d", n),
		StartRetries: 2, StartPause: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// opens gives a way to open the same queue several times.
func opens(config Config) queuetest.Open {
	return func(t *testing.T) synchronizer.Queue {
		c := config
		c.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
		q, err := Open(t.Context(), c)
		require.NoError(t, err)
		return q
	}
}

// own is a broker that a test disturbs.
type own struct {
	*brokers.Pulsar
	open queuetest.Open
}

func (o own) Open(t *testing.T) synchronizer.Queue { return o.open(t) }
func (o own) Stop(t *testing.T)                    { o.Pulsar.Stop(t) }
func (o own) Kill(t *testing.T)                    { o.Pulsar.Kill(t) }
func (o own) Start(t *testing.T)                   { o.Pulsar.Start(t) }

func newOwn(t *testing.T) own {
	p := brokers.DisturbPulsar(t)
	return own{p, opens(configOn(t, p))}
}

func TestContract(t *testing.T) {
	var last Config
	guarded := guardedBroker(t)
	queuetest.Run(t, queuetest.Factory{
		Name: "pulsar", Version: "Apache Pulsar 4.0.7",
		New: func(t *testing.T) queuetest.Open {
			last = configOn(t, brokers.SharedPulsar(t))
			last.MaxRecord = maxRecordOfTests
			return opens(last)
		},
		Limited: func(t *testing.T) queuetest.Open {
			p := guarded(t)
			config := configOn(t, p)
			config.AdminURL, config.Token = "", p.Token(t, guardedRole)
			return opens(config)
		},
		MaxPayload: maxRecordOfTests,
		Rewinds:    true,
		Patience:   patience,
		Broker:     func(t *testing.T) queuetest.Broker { return newOwn(t) },
		Ways:       ways(guarded),
		Absent: func(t *testing.T) error {
			config := configOn(t, brokers.SharedPulsar(t))
			config.URL, config.AdminURL = "pulsar://127.0.0.1:1", ""
			return openingFails(t, config)
		},
		MissingTopic: func(t *testing.T) error {
			config := configOn(t, brokers.SharedPulsar(t))
			config.AdminURL, config.Namespace = "", "nobody-made-this"
			return openingFails(t, config)
		},
		Leftovers: func(t *testing.T) []string { return leftovers(t, brokers.SharedPulsar(t), last) },
	})
}

const maxRecordOfTests = 24 << 20

func openingFails(t *testing.T, config Config) error {
	q, err := Open(t.Context(), config)
	if err == nil {
		require.NoError(t, q.Close(t.Context()))
	}
	return err
}

// leftovers are the subscriptions that are no group's.
func leftovers(t *testing.T, p *brokers.Pulsar, config Config) []string {
	var left []string
	for _, topic := range []string{config.OutTopic, config.InTopic} {
		namespace := "persistent/" + config.Tenant + "/" + config.Namespace
		if !strings.Contains(p.Admin(t, http.MethodGet, namespace, ""), "/"+topic+`"`) {
			continue // nobody has used it
		}
		path := namespace + "/" + url.PathEscape(topic) + "/subscriptions"
		var all []string
		require.NoError(t, json.Unmarshal([]byte(p.Admin(t, http.MethodGet, path, "")), &all))
		for _, name := range all {
			if !strings.HasPrefix(name, queuetest.Group) {
				left = append(left, topic+": "+name)
			}
		}
	}
	return left
}

// guardedRole may use the namespace of the tests on the guarded broker.
const guardedRole = "app"

// guardedBroker is one on which a client has to log in, and whose largest message
// is 1 MiB. It is started for the first test that needs it.
func guardedBroker(whole *testing.T) func(*testing.T) *brokers.Pulsar {
	var guarded *brokers.Pulsar
	return func(t *testing.T) *brokers.Pulsar {
		t.Helper()
		if guarded == nil {
			guarded = brokers.StartPulsar(whole, brokers.PulsarOptions{Token: true, MTLS: true, MaxMessageSize: 1 << 20})
			prepareFor(t, guarded, guardedRole, brokers.PulsarClient)
		}
		return guarded
	}
}

// ways are all ways in.
func ways(withToken func(*testing.T) *brokers.Pulsar) []queuetest.Way {
	open := func(t *testing.T, config Config) (synchronizer.Queue, error) {
		q, err := Open(t.Context(), config)
		if err != nil {
			return nil, err
		}
		return q, nil
	}
	secure := func(t *testing.T, ca func(brokers.Certs) string) Config {
		p := brokers.SharedPulsar(t)
		config := configOn(t, p)
		config.URL, config.CAFile = p.TLSURL, ca(p.Certs)
		return config
	}
	token := func(t *testing.T, token string) Config {
		config := configOn(t, withToken(t))
		config.AdminURL, config.Token = "", token
		return config
	}
	certified := func(t *testing.T, cert, key func(brokers.Certs) string) Config {
		p := withToken(t)
		config := configOn(t, p)
		config.AdminURL, config.URL, config.CAFile = "", p.TLSURL, p.Certs.CA
		config.CertFile, config.KeyFile = cert(p.Certs), key(p.Certs)
		return config
	}
	ofClient := func(t *testing.T) Config {
		return certified(t, func(c brokers.Certs) string { return c.ClientCert }, func(c brokers.Certs) string { return c.ClientKey })
	}
	const wrong = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhcHAifQ.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	return []queuetest.Way{
		{Name: "plain", Open: func(t *testing.T) (synchronizer.Queue, error) {
			return open(t, configOn(t, brokers.SharedPulsar(t)))
		}},
		{
			Name: "TLS",
			Open: func(t *testing.T) (synchronizer.Queue, error) {
				return open(t, secure(t, func(c brokers.Certs) string { return c.CA }))
			},
			Wrong: func(t *testing.T) error {
				return openingFails(t, secure(t, func(c brokers.Certs) string { return c.OtherCA }))
			},
		},
		{
			Name: "mTLS",
			Open: func(t *testing.T) (synchronizer.Queue, error) { return open(t, ofClient(t)) },
			Wrong: func(t *testing.T) error {
				return openingFails(t, certified(t, func(c brokers.Certs) string { return c.OtherCert }, func(c brokers.Certs) string { return c.OtherKey }))
			},
		},
		{
			Name: "mTLS without certificate",
			Open: func(t *testing.T) (synchronizer.Queue, error) { return open(t, ofClient(t)) },
			Wrong: func(t *testing.T) error {
				config := ofClient(t)
				config.CertFile, config.KeyFile = "", ""
				return openingFails(t, config)
			},
		},
		{
			Name: "token",
			Open: func(t *testing.T) (synchronizer.Queue, error) {
				return open(t, token(t, withToken(t).Token(t, guardedRole)))
			},
			Wrong:   func(t *testing.T) error { return openingFails(t, token(t, wrong)) },
			Secrets: []string{wrong},
		},
		{
			Name: "token file with TLS and admin",
			Open: func(t *testing.T) (synchronizer.Queue, error) {
				p := withToken(t)
				config := configOn(t, p)
				config.URL, config.CAFile = p.TLSURL, p.Certs.CA
				config.TokenFile = tokenFile(t, p.Token(t, brokers.PulsarAdmin))
				return open(t, config)
			},
			Wrong: func(t *testing.T) error {
				p := withToken(t)
				config := configOn(t, p)
				config.URL, config.CAFile, config.TokenFile = p.TLSURL, p.Certs.CA, tokenFile(t, wrong)
				return openingFails(t, config)
			},
			Secrets: []string{wrong},
		},
	}
}

// prepareFor makes the namespaces on a broker with tokens and lets roles use them.
func prepareFor(t *testing.T, p *brokers.Pulsar, roles ...string) {
	p.Admin(t, http.MethodPut, "tenants/"+testTenant, `{"allowedClusters":["`+brokers.PulsarCluster+`"]}`)
	for _, namespace := range []string{testNamespace, testNamespace + deadLetterNamespace} {
		path := "namespaces/" + testTenant + "/" + namespace
		p.Admin(t, http.MethodPut, path, `{"replication_clusters":["`+brokers.PulsarCluster+`"]}`)
		for _, role := range roles {
			p.Admin(t, http.MethodPost, path+"/permissions/"+role, `["produce","consume"]`)
		}
	}
}

func tokenFile(t *testing.T, token string) string {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	return file
}
