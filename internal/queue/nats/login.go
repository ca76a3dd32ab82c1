// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"synchronizer"
)

const (
	connectTimeout = 5 * time.Second
	reconnectPause = 500 * time.Millisecond
	// A connection that is dead without a word is noticed after two pings.
	pingEvery    = 10 * time.Second
	unanswered   = 2
	writeTimeout = 10 * time.Second
	// mostPayload is the broker's own upper limit.
	mostPayload = 64 << 20
)

// options are those of both connections.
func (c *Config) options() ([]natsgo.Option, error) {
	options := []natsgo.Option{
		natsgo.Timeout(connectTimeout),
		natsgo.MaxReconnects(-1), natsgo.ReconnectWait(reconnectPause), natsgo.ReconnectJitter(reconnectPause/2, reconnectPause/2),
		// The publisher itself repeats what was not confirmed, in order.
		natsgo.ReconnectBufSize(-1),
		// Credentials may be repaired on the broker while we try.
		natsgo.IgnoreAuthErrorAbort(),
		natsgo.PingInterval(pingEvery), natsgo.MaxPingsOutstanding(unanswered), natsgo.FlusherTimeout(writeTimeout),
	}
	switch {
	case c.Username != "":
		options = append(options, natsgo.UserInfo(c.Username, c.Password))
	case c.Token != "":
		options = append(options, natsgo.Token(c.Token))
	case c.NKeySeedFile != "":
		option, err := natsgo.NkeyOptionFromSeed(c.NKeySeedFile)
		if err != nil {
			return nil, fmt.Errorf("%w: reading nkey seed %s: %w", synchronizer.ErrInvalid, c.NKeySeedFile, err)
		}
		options = append(options, option)
	case c.CredsFile != "":
		if _, err := os.ReadFile(c.CredsFile); err != nil {
			return nil, fmt.Errorf("%w: reading credentials: %w", synchronizer.ErrInvalid, err)
		}
		options = append(options, natsgo.UserCredentials(c.CredsFile))
	}
	config, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	if config != nil {
		options = append(options, natsgo.Secure(config))
	}
	return options, nil
}

// config is nil if nothing is given: then the servers say whether they want TLS.
func (t TLS) config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%w: reading CA: %w", synchronizer.ErrInvalid, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: reading CA: no certificate in %s", synchronizer.ErrInvalid, t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%w: reading certificate of this client: %w", synchronizer.ErrInvalid, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// shown are addresses without credentials.
func shown(urls []string) []string {
	list := make([]string, len(urls))
	for i, text := range urls {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Host == "" {
			list[i] = text[strings.LastIndexByte(text, '@')+1:]
			continue
		}
		list[i] = u.Scheme + "://" + u.Host
	}
	return list
}

func unauthorized(err error) bool {
	for _, refusal := range []error{
		natsgo.ErrAuthorization, natsgo.ErrAuthExpired, natsgo.ErrAuthRevoked, natsgo.ErrAccountAuthExpired,
		natsgo.ErrNkeysNotSupported,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return strings.Contains(strings.ToLower(err.Error()), "authorization violation")
}

func badTLS(err error) bool {
	var (
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		verify   *tls.CertificateVerificationError
		alert    tls.AlertError
		record   tls.RecordHeaderError
	)
	return errors.As(err, &unknown) || errors.As(err, &hostname) || errors.As(err, &invalid) || errors.As(err, &verify) ||
		errors.As(err, &alert) || errors.As(err, &record) ||
		errors.Is(err, natsgo.ErrSecureConnWanted) || errors.Is(err, natsgo.ErrSecureConnRequired) ||
		strings.Contains(err.Error(), "tls: ") // of the other side, which has no type
}

// isFinal tells that trying again does not help.
func isFinal(err error) bool {
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.Code >= 400 && refused.Code < 500 {
		return true
	}
	return errors.Is(err, synchronizer.ErrInvalid) || errors.Is(err, synchronizer.ErrUnauthorized)
}
