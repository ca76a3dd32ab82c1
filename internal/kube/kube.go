// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"synchronizer"
)

// Options say how to read an API server. Zero values mean the defaults.
type Options struct {
	// Config is address and credentials, see LoadConfig. Its QPS, Burst and
	// Timeout are not used. Lists come as gzip unless DisableCompression is set:
	// over TLS on loopback that was measured to cost no more CPU on either side.
	Config *rest.Config
	// QPS limits requests per second, Burst how many of them may come at once.
	// The API server protects itself (429 with Retry-After), so this only guards
	// against a fault of ours. Default: no limit if QPS is 0, else a burst of twice QPS.
	QPS   float64
	Burst int
	// PageSize is the number of items asked for at once. Default 500.
	PageSize int
	// ItemBytes is the largest object that is read. Default 64 MiB.
	ItemBytes int
	// WatchSilence ends a watch on which no byte came for so long. The API server
	// sends a bookmark about once a minute. Default 2 min.
	WatchSilence time.Duration
	// ReadSilence ends any other request on which no byte came for so long. Default 60 s.
	ReadSilence time.Duration
	// WatchTime is after how long the API server is asked to end a watch, at
	// least; at most it is twice as long. Full seconds. Default 5 min.
	WatchTime time.Duration
	// An HTTP/2 connection on which nothing was heard for PingAfter is asked whether
	// it lives, and given up with all its requests when PingTimeout later it has not
	// answered. Defaults 30 s and 15 s.
	PingAfter   time.Duration
	PingTimeout time.Duration
	Logger      *slog.Logger          // default: none
	Registerer  prometheus.Registerer // default: none
}

// The defaults of Options.
const (
	DefaultQPS          = 500
	DefaultPageSize     = 500
	DefaultItemBytes    = 64 << 20
	DefaultWatchSilence = 2 * time.Minute
	DefaultReadSilence  = time.Minute
	DefaultWatchTime    = 5 * time.Minute
	DefaultPingAfter    = 30 * time.Second
	DefaultPingTimeout  = 15 * time.Second
)

// Cluster reads one API server. It implements synchronizer.Cluster.
type Cluster struct {
	options   Options
	base      *url.URL
	http      *http.Client
	transport http.RoundTripper
	limiter   *rate.Limiter
	metrics   *metrics
	log       *slog.Logger

	mu     sync.Mutex
	groups map[string]*groupVersion // by group/version
	pages  map[pageKey]pageLimit    // what the lists before have learned
}

var _ synchronizer.Cluster = (*Cluster)(nil)

// New prepares to read an API server; it sends nothing.
func New(options Options) (*Cluster, error) {
	if options.Config == nil {
		return nil, errors.New("no configuration of an API server")
	}
	options.setDefaults()
	config := rest.CopyConfig(options.Config)
	if config.UserAgent == "" {
		config.UserAgent = "synchronizer"
	}
	host := config.Host
	if host == "" {
		return nil, errors.New("configuration names no API server")
	}
	secure := config.CAFile != "" || len(config.CAData) > 0 || config.CertFile != "" || len(config.CertData) > 0 || config.Insecure
	base, _, err := rest.DefaultServerURL(host, "/", schema.GroupVersion{}, secure)
	if err != nil {
		return nil, fmt.Errorf("reading address of the API server: %w", err)
	}
	inner, outer, err := newTransport(config, &options)
	if err != nil {
		return nil, fmt.Errorf("preparing connection to the API server: %w", err)
	}
	c := &Cluster{
		options:   options,
		base:      base,
		transport: inner,
		http: &http.Client{
			Transport: outer,
			// A redirect would carry the token to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		limiter: rate.NewLimiter(rate.Inf, 0),
		metrics: newMetrics(options.Registerer),
		log:     options.Logger,
		groups:  map[string]*groupVersion{},
		pages:   map[pageKey]pageLimit{},
	}
	if options.QPS > 0 {
		c.limiter = rate.NewLimiter(rate.Limit(options.QPS), options.Burst)
	}
	return c, nil
}

func (o *Options) setDefaults() {
	if o.Burst <= 0 {
		o.Burst = max(1, int(2*o.QPS))
	}
	if o.PageSize <= 0 {
		o.PageSize = DefaultPageSize
	}
	if o.ItemBytes <= 0 {
		o.ItemBytes = DefaultItemBytes
	}
	if o.WatchSilence <= 0 {
		o.WatchSilence = DefaultWatchSilence
	}
	if o.ReadSilence <= 0 {
		o.ReadSilence = DefaultReadSilence
	}
	if o.WatchTime < time.Second {
		o.WatchTime = DefaultWatchTime
	}
	if o.PingAfter <= 0 {
		o.PingAfter = DefaultPingAfter
	}
	if o.PingTimeout <= 0 {
		o.PingTimeout = DefaultPingTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Close closes idle connections. Requests that run are ended by their contexts.
func (c *Cluster) Close() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// newTransport makes the connection and what puts credentials onto requests.
// It is our own and not one of client-go's shared ones, so that Close closes
// it and so that HTTP/2 keeps little in memory for a reader that is busy.
func newTransport(config *rest.Config, options *Options) (inner, outer http.RoundTripper, err error) {
	tc, err := config.TransportConfig()
	if err != nil {
		return nil, nil, err
	}
	inner = tc.Transport
	if inner == nil {
		tlsConfig, err := transport.TLSConfigFor(tc)
		if err != nil {
			return nil, nil, err
		}
		dialer := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
		dial := dialer.DialContext
		if tc.DialHolder != nil {
			dial = tc.DialHolder.Dial
		}
		proxy := config.Proxy
		if proxy == nil {
			proxy = http.ProxyFromEnvironment
		}
		inner = &http.Transport{
			Proxy:               proxy,
			DialContext:         dial,
			TLSClientConfig:     tlsConfig,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  config.DisableCompression,
			ForceAttemptHTTP2:   true,
			HTTP2: &http.HTTP2Config{
				// A connection that died silently takes all watches with it.
				SendPingTimeout:               options.PingAfter,
				PingTimeout:                   options.PingTimeout,
				MaxReceiveBufferPerStream:     512 << 10,
				MaxReceiveBufferPerConnection: 8 << 20,
			},
		}
	}
	outer, err = transport.HTTPWrappersForConfig(tc, inner)
	return inner, outer, err
}
