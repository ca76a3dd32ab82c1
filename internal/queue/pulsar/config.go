// SPDX-License-Identifier: Apache-2.0

package pulsar

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"synchronizer"
)

// Config says where the broker is and what is on it.
type Config struct {
	// URL is pulsar://host:port or pulsar+ssl://host:port; more hosts with commas.
	URL string
	// Tenant and Namespace of the topics; default public and default.
	Tenant, Namespace string
	// AdminURL is http(s)://host:port. When set, tenant and namespaces are made.
	AdminURL string
	// Clusters that a new tenant and its namespaces may use; empty: all that the
	// broker knows.
	Clusters []string
	// OutTopic and InTopic may be the same.
	OutTopic, InTopic string
	// Subscription is the group of Consume(ctx, ""); default DefaultSubscription.
	Subscription string
	// Token, or the file that holds it, which is read again at every connection.
	Token, TokenFile string
	// CAFile holds the authorities that may sign the broker's certificate (PEM);
	// empty: those of the system. CertFile and KeyFile are the client's own.
	CAFile, CertFile, KeyFile string
	// MaxRecord is the size in bytes above which a record is refused; default 64 MiB.
	MaxRecord int
	// RedeliveryDelay is how long to wait before delivery begins anew after a lost
	// connection, at first; default 250 ms.
	RedeliveryDelay time.Duration
	// StartRetries is how often Open tries, StartPause apart; default 20 and 3 s.
	StartRetries int
	StartPause   time.Duration
	Logger       *slog.Logger

	// For tests: messages in flight per producer, how often to look for partitions, and
	// how long the broker may take to answer an acknowledgement.
	pending       int
	partitionsNew time.Duration
	ackPatience   time.Duration
}

// DefaultSubscription is the group of ingesters.
const DefaultSubscription = "synchronizer-ingester"

// fieldSubscription belongs to the ingester in the field. Sharing it would take
// records from it.
const fieldSubscription = "synchronizer-a"

const (
	defaultMaxRecord  = 64 << 20
	defaultMaxMessage = 5 << 20 // what a broker has that does not say it
	smallestMessage   = 16 << 10
)

func (c Config) withDefaults() Config {
	set := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	set(&c.Tenant, "public")
	set(&c.Namespace, "default")
	set(&c.Subscription, DefaultSubscription)
	if c.MaxRecord <= 0 {
		c.MaxRecord = defaultMaxRecord
	}
	if c.RedeliveryDelay <= 0 {
		c.RedeliveryDelay = 250 * time.Millisecond
	}
	if c.StartRetries <= 0 {
		c.StartRetries = 20
	}
	if c.StartPause <= 0 {
		c.StartPause = 3 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.partitionsNew <= 0 {
		c.partitionsNew = 30 * time.Second
	}
	if c.ackPatience <= 0 {
		c.ackPatience = 3 * time.Second
	}
	return c
}

// check reports all that is wrong at once.
func (c *Config) check() error {
	var all []error
	wrong := func(format string, values ...any) {
		all = append(all, fmt.Errorf("%w: "+format, append([]any{synchronizer.ErrInvalid}, values...)...))
	}
	if _, _, err := c.brokers(); err != nil {
		all = append(all, err)
	}
	if c.AdminURL != "" {
		if u, err := url.Parse(c.AdminURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			wrong("admin URL of Pulsar must be http://host:port or https://host:port")
		}
	}
	for _, name := range []struct{ what, value string }{
		{"tenant", c.Tenant},
		{"namespace", c.Namespace},
		{"topic for out", c.OutTopic},
		{"topic for in", c.InTopic},
	} {
		if name.value == "" || strings.ContainsAny(name.value, "/ ") {
			wrong("%s of Pulsar is %q: give a name without / and spaces", name.what, name.value)
		}
	}
	if c.Subscription == fieldSubscription {
		wrong("subscription %q belongs to the ingester in the field: give another one, such as %s", c.Subscription, DefaultSubscription)
	}
	if c.Token != "" && c.TokenFile != "" {
		wrong("Pulsar has a token and a file of a token: give one of them")
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		wrong("a client certificate for Pulsar needs both the certificate and its key")
	}
	return errors.Join(all...)
}

// brokers are the addresses in URL.
func (c *Config) brokers() (hosts []string, secure bool, err error) {
	scheme, rest, _ := strings.Cut(c.URL, "://")
	port := "6650"
	switch scheme {
	case "pulsar":
	case "pulsar+ssl":
		secure, port = true, "6651"
	default:
		return nil, false, fmt.Errorf("%w: URL of Pulsar must begin with pulsar:// or pulsar+ssl://", synchronizer.ErrInvalid)
	}
	rest, _, _ = strings.Cut(rest, "/")
	for host := range strings.SplitSeq(rest, ",") {
		if host == "" || strings.Contains(host, "@") {
			return nil, false, fmt.Errorf("%w: URL of Pulsar must be like %s://host:port", synchronizer.ErrInvalid, scheme)
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		hosts = append(hosts, host)
	}
	return hosts, secure, nil
}

// tls is nil when nothing is said about it, and then means the defaults.
func (c *Config) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%w: %s holds no certificate in PEM", synchronizer.ErrInvalid, c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// token is what to log in with now, "" if nothing.
func (c *Config) token() (string, error) {
	if c.TokenFile == "" {
		return c.Token, nil
	}
	text, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", fmt.Errorf("reading token: %w", err)
	}
	if token := strings.TrimSpace(string(text)); token != "" {
		return token, nil
	}
	return "", fmt.Errorf("%w: token file %s is empty", synchronizer.ErrInvalid, c.TokenFile)
}

// topic is the full name of a direction's topic.
func (c *Config) topic(d synchronizer.Direction) string {
	switch d {
	case synchronizer.Out:
		return c.topicIn(c.Namespace, c.OutTopic)
	case synchronizer.In:
		return c.topicIn(c.Namespace, c.InTopic)
	}
	return c.topicIn(c.Namespace+deadLetterNamespace, c.OutTopic+deadLetterTopic)
}

// The names of the field.
const (
	deadLetterNamespace = "-dlqs"
	deadLetterTopic     = "-dlq"
)

func (c *Config) topicIn(namespace, topic string) string {
	return "persistent://" + c.Tenant + "/" + namespace + "/" + topic
}

// shared says that both directions are on one topic.
func (c *Config) shared() bool { return c.OutTopic == c.InTopic }
