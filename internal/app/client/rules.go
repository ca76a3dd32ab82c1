// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"synchronizer"
	"synchronizer/internal/config"
	"synchronizer/internal/filter"
	"synchronizer/internal/kube"
)

// rules are the rules on which objects are carried, and where those on
// namespaces come from.
type rules struct {
	filter    *filter.Filter
	configMap string          // "namespace/name"; empty: from the configuration
	watcher   *filter.Watcher // nil: they do not change
}

// newRules makes the rules that the configuration asks for. Those of a ConfigMap
// are followed while the watcher runs, and until then carry nothing.
func newRules(c *config.Config, cluster *kube.Cluster, log *slog.Logger, reg prometheus.Registerer) (rules, error) {
	in := &c.InCluster
	name := in.NamespaceFilterConfigMapName
	if name == "" {
		return rules{filter: Filter(c)}, nil
	}
	if in.Namespace == "" {
		return rules{}, fmt.Errorf("%w: inCluster.namespace: missing: it is where the ConfigMap of inCluster.namespaceFilterConfigMapName is", synchronizer.ErrInvalid)
	}
	live := filter.NewLive(in.Namespace, in.IncludeChildWorkloads)
	watcher, err := filter.NewWatcher(filter.WatcherOptions{
		Source: cluster.Select(kube.ConfigMap(in.Namespace, name)), Live: live,
		Namespace: in.Namespace, Name: name, Logger: log, Registerer: reg,
	})
	if err != nil {
		return rules{}, err
	}
	return rules{filter: live.Filter(), configMap: in.Namespace + "/" + name, watcher: watcher}, nil
}

// run follows the ConfigMap, if there is one, until ctx ends.
func (r *rules) run(ctx context.Context) {
	if r.watcher != nil {
		r.watcher.Run(ctx)
	}
}

// wait returns when there are rules to go by; false if ctx ended before.
func (r *rules) wait(ctx context.Context) bool {
	if r.watcher == nil {
		return true
	}
	select {
	case <-r.watcher.Ready():
		return true
	case <-ctx.Done():
		return false
	}
}

// err says what is waited for.
func (r *rules) err() error {
	if r.watcher == nil {
		return nil
	}
	return r.watcher.Err()
}

// RulesStatus is where the namespace rules come from.
type RulesStatus struct {
	ConfigMap string `json:"configMap,omitempty"` // "namespace/name"; empty: the configuration
	InForce   bool   `json:"inForce"`             // false: nothing is synchronized yet
	Error     string `json:"reason,omitempty"`    // why not
}

func (r *rules) status() RulesStatus {
	s := RulesStatus{ConfigMap: r.configMap, InForce: true}
	if err := r.err(); err != nil {
		s.InForce, s.Error = false, err.Error()
	}
	return s
}

// Filter is the configuration's rule on which objects are carried, without those
// of a ConfigMap.
func Filter(c *config.Config) *filter.Filter {
	return filter.New(filter.Rules{
		IncludeNamespaces: c.InCluster.IncludeNamespaces, ExcludeNamespaces: c.InCluster.ExcludeNamespaces,
		OperatorNamespace: c.InCluster.Namespace, IncludeChildWorkloads: c.InCluster.IncludeChildWorkloads,
	})
}

// CurrentFilter is the rule that a client with this configuration goes by just
// now. A ConfigMap with rules is read; one that cannot be read within the time
// is an error.
func CurrentFilter(ctx context.Context, c *config.Config, cluster *kube.Cluster, within time.Duration) (*filter.Filter, error) {
	r, err := newRules(c, cluster, nil, nil)
	if err != nil || r.watcher == nil {
		return r.filter, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.run(ctx)
	}()
	ready := r.wait(ctx)
	cancel()
	<-ended
	if !ready {
		return nil, r.err()
	}
	return r.filter, nil
}
