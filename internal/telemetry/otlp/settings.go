// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// prefix begins the variables of the exporter; a variable with TRACES_ behind it
// wins.
const prefix = "OTEL_EXPORTER_OTLP_"

const (
	tracesPath      = "/v1/traces"
	defaultEndpoint = "http://localhost:4318" // if only the exporter is chosen
	defaultTimeout  = 10 * time.Second
)

// settings are what the environment says of the exporter.
type settings struct {
	endpoint *url.URL
	headers  http.Header
	timeout  time.Duration // of one request
	gzip     bool
	tls      *tls.Config
}

// Enabled reports whether the environment asks for traces at all: by an endpoint, or
// by an exporter.
func Enabled(getenv func(string) string) bool {
	exporter := choice(getenv("OTEL_TRACES_EXPORTER"))
	if off, _ := strconv.ParseBool(strings.TrimSpace(getenv("OTEL_SDK_DISABLED"))); off || exporter == "none" {
		return false
	}
	_, value := lookup(getenv, "ENDPOINT")
	return value != "" || exporter != ""
}

// choice is a value of which the case does not matter.
func choice(text string) string { return strings.ToLower(strings.TrimSpace(text)) }

// lookup gives the value of a variable and the name under which it was found.
func lookup(getenv func(string) string, name string) (variable, value string) {
	for _, variable := range []string{prefix + "TRACES_" + name, prefix + name} {
		if value := strings.TrimSpace(getenv(variable)); value != "" {
			return variable, value
		}
	}
	return prefix + name, ""
}

// read reads the environment. Its error names the variable, never the value of one
// that may hold a secret.
func read(getenv func(string) string) (*settings, error) {
	if kind := choice(getenv("OTEL_TRACES_EXPORTER")); kind != "" && kind != "otlp" {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: only otlp and none are known", kind)
	}
	if variable, protocol := lookup(getenv, "PROTOCOL"); protocol != "" && choice(protocol) != "http/protobuf" {
		return nil, fmt.Errorf("%s is %q: only http/protobuf is known; a collector listens for it on port 4318", variable, protocol)
	}
	s := &settings{timeout: defaultTimeout}
	variable, endpoint := lookup(getenv, "ENDPOINT")
	if endpoint == "" {
		endpoint = defaultEndpoint
	}
	target, err := url.Parse(endpoint)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, fmt.Errorf("%s must be a URL with http or https, such as http://collector:4318", variable)
	}
	if variable == prefix+"ENDPOINT" {
		target = target.JoinPath(tracesPath)
	}
	s.endpoint = target
	if variable, text := lookup(getenv, "HEADERS"); text != "" {
		if s.headers, err = readHeaders(text); err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
	}
	if variable, text := lookup(getenv, "TIMEOUT"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 32)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("%s is %q: not a number of milliseconds", variable, text)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	switch variable, text := lookup(getenv, "COMPRESSION"); choice(text) {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return nil, fmt.Errorf("%s is %q: only gzip and none are known", variable, text)
	}
	if s.tls, err = readTLS(getenv); err != nil {
		return nil, err
	}
	return s, nil
}

var errHeaders = errors.New("not of the form key=value,key=value") // and no more, since it holds secrets

// readHeaders reads "key=value,key=value" with escapes as in a URL.
func readHeaders(text string) (http.Header, error) {
	headers := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || key == "" || err != nil || strings.ContainsAny(key+value, "\r\n\x00") || strings.ContainsAny(key, " \t:") {
			return nil, errHeaders
		}
		headers.Set(key, value)
	}
	return headers, nil
}

func readTLS(getenv func(string) string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if variable, file := lookup(getenv, "CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate in %s", variable, file)
		}
	}
	variable, certificate := lookup(getenv, "CLIENT_CERTIFICATE")
	_, key := lookup(getenv, "CLIENT_KEY")
	if certificate == "" && key == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%s and the key beside it: %w", variable, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
