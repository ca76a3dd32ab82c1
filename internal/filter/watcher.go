// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
)

// configMaps is the one kind that is read.
var configMaps = synchronizer.Kind{Version: "v1", Resource: "configmaps"}

// The lines that operators wait for and alert on; documented.
const (
	logUpdated  = "namespace filters updated"
	logWaiting  = "waiting for valid namespace filter ConfigMap"
	logRejected = "namespace filters rejected"
	logAgain    = "namespace filter ConfigMap is read again"
	logKept     = "namespace filter ConfigMap cannot be read, the last valid rules stay in force"
)

// absent is one reason why nothing can be read.
const absent = "it does not exist"

const (
	firstDelay = 500 * time.Millisecond
	lastDelay  = 15 * time.Second
)

// Source is the part of synchronizer.Cluster that a Watcher needs, with its
// promises, restricted to the one ConfigMap: see kube.ConfigMap. What it shows of
// other objects is ignored. It is called from one goroutine.
type Source interface {
	List(ctx context.Context, kind synchronizer.Kind, each func(synchronizer.Object) error) (resourceVersion string, err error)
	Watch(ctx context.Context, kind synchronizer.Kind, resourceVersion string, each func(synchronizer.WatchEvent) error) error
}

// WatcherOptions are what a Watcher is made of. All but the last two are required.
type WatcherOptions struct {
	Source    Source
	Live      *Live // only the watcher may replace its lists
	Namespace string
	Name      string

	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
}

// Watcher keeps a Live in step with a ConfigMap. Make it with NewWatcher, and
// call Run once.
type Watcher struct {
	options WatcherOptions
	log     *slog.Logger
	updates *prometheus.CounterVec
	ready   chan struct{}

	// Of the goroutine of Run.
	inForce bool   // ready is closed
	seen    string // uid and resourceVersion of the last document, valid or not
	trouble string // what was logged last and still is the case
}

// NewWatcher sends nothing. An empty namespace or name is an ErrInvalid.
func NewWatcher(options WatcherOptions) (*Watcher, error) {
	if options.Source == nil || options.Live == nil {
		return nil, fmt.Errorf("%w: namespace filter watcher without source or filter", synchronizer.ErrInvalid)
	}
	if options.Namespace == "" || options.Name == "" {
		return nil, fmt.Errorf("%w: the namespace filter ConfigMap needs a name and a namespace", synchronizer.ErrInvalid)
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{
		options: options,
		log:     options.Logger.With("configMap", options.Namespace+"/"+options.Name),
		updates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "synchronizer_namespace_filter_updates_total",
			Help: "States of the namespace filter ConfigMap that were read, by result: applied, unchanged (the same lists as before), rejected.",
		}, []string{"result"}),
		ready: make(chan struct{}),
	}
	for _, result := range []string{"applied", "unchanged", "rejected"} {
		w.updates.WithLabelValues(result)
	}
	if options.Registerer != nil {
		if err := options.Registerer.Register(w.updates); err != nil {
			return nil, fmt.Errorf("registering metrics of the namespace filter: %w", err)
		}
	}
	return w, nil
}

// Ready is closed once the first valid document is in force. Nothing may be
// synchronized before.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// Err is nil once Ready is closed, and else says what is waited for; it is meant
// for a readiness probe.
func (w *Watcher) Err() error {
	select {
	case <-w.ready:
		return nil
	default:
		return fmt.Errorf("%s %s/%s", logWaiting, w.options.Namespace, w.options.Name)
	}
}

// Run follows the ConfigMap until ctx ends. Nothing else ends it: what cannot be
// read or accepted is logged and tried again, with a pause that grows to 15 s.
func (w *Watcher) Run(ctx context.Context) {
	w.log.Info(logWaiting)
	delay := &backoff.ExponentialBackOff{
		InitialInterval: firstDelay, MaxInterval: lastDelay,
		Multiplier: 2, RandomizationFactor: 0.3,
	}
	delay.Reset()
	for version := ""; ; {
		var heard bool
		var err error
		version, heard, err = w.follow(ctx, version)
		if ctx.Err() != nil {
			return
		}
		if heard {
			delay.Reset()
		}
		pause := delay.NextBackOff()
		if err != nil {
			w.unreadable(err.Error())
			version = ""
			var later *synchronizer.RetryAfterError
			if errors.As(err, &later) {
				pause = max(pause, later.After)
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// follow watches from version, or lists first if it is empty, until the watch
// ends. It gives the version to go on from, and whether the watch said anything.
func (w *Watcher) follow(ctx context.Context, version string) (next string, heard bool, err error) {
	if version == "" {
		found := false
		version, err = w.options.Source.List(ctx, configMaps, func(o synchronizer.Object) error {
			if w.mine(o) {
				found = true
				w.take(o)
			}
			return nil
		})
		if err != nil {
			return "", false, err
		}
		if !found {
			w.unreadable(absent)
		}
	}
	err = w.options.Source.Watch(ctx, configMaps, version, func(e synchronizer.WatchEvent) error {
		if e.Object.ResourceVersion != "" {
			version = e.Object.ResourceVersion
		}
		heard = true
		w.readable()
		switch {
		case e.Type == synchronizer.WatchBookmark:
		case !w.mine(e.Object):
		case e.Type == synchronizer.WatchDeleted:
			w.unreadable(absent)
		default:
			w.trouble = ""
			w.take(e.Object)
		}
		return nil
	})
	return version, heard, err
}

func (w *Watcher) mine(o synchronizer.Object) bool {
	return o.Namespace == w.options.Namespace && o.Name == w.options.Name
}

// take puts a state of the ConfigMap in force, or rejects it. A state that is
// listed again after a broken watch is not looked at twice.
func (w *Watcher) take(o synchronizer.Object) {
	state := o.UID + "/" + o.ResourceVersion
	if o.ResourceVersion != "" && state == w.seen {
		return
	}
	w.seen = state
	changed, err := w.apply(o)
	switch {
	case err != nil:
		w.updates.WithLabelValues("rejected").Inc()
		w.log.Warn(logRejected, "resourceVersion", o.ResourceVersion, "error", err, "waiting", !w.inForce)
		return
	case changed:
		w.updates.WithLabelValues("applied").Inc()
		w.log.Info(logUpdated, "resourceVersion", o.ResourceVersion)
	default:
		w.updates.WithLabelValues("unchanged").Inc()
	}
	if !w.inForce {
		w.inForce = true
		close(w.ready)
	}
}

func (w *Watcher) apply(o synchronizer.Object) (changed bool, err error) {
	if o.Err != nil {
		return false, o.Err
	}
	var configMap struct {
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal(o.Body, &configMap); err != nil {
		return false, fmt.Errorf("reading ConfigMap: %w", err)
	}
	text, ok := configMap.Data[DocumentKey]
	if !ok {
		return false, fmt.Errorf("%w: its data has no key %s", synchronizer.ErrInvalid, DocumentKey)
	}
	lists, err := ParseDocument([]byte(text))
	if err != nil {
		return false, err
	}
	return w.options.Live.Replace(lists)
}

// unreadable logs why there is nothing to read, once per reason: the pauses
// between two attempts are short.
func (w *Watcher) unreadable(reason string) {
	if reason == w.trouble {
		return
	}
	w.trouble = reason
	message := logWaiting
	if w.inForce {
		message = logKept
	}
	w.log.Warn(message, "reason", reason)
}

// readable notes that the API server answers.
func (w *Watcher) readable() {
	if w.trouble != "" && w.trouble != absent {
		w.trouble = ""
		w.log.Info(logAgain)
	}
}
