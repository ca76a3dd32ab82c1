// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"context"
	"time"

	"synchronizer"
)

const (
	// firstSyncAfter is how long a new cluster has to report by itself. A client in
	// the field does so only when its own process starts.
	firstSyncAfter = time.Minute
	// firstSyncAge is how old a cluster may be to be asked for kinds of which
	// nothing was heard. Within it a few connections are each a new occasion, because
	// the one before may have been too short; kinds that a client has are known after
	// its first answer and are not asked for again.
	firstSyncAge = 24 * time.Hour
)

// StockKinds are the kinds that the stock chart configures.
var StockKinds = stockKinds()

func stockKinds() (kinds []synchronizer.Kind) {
	for _, of := range []struct {
		group, version string
		resources      []string
	}{
		{"", "v1", []string{"services", "serviceaccounts", "persistentvolumes", "pods", "namespaces", "nodes", "configmaps"}},
		{"apps", "v1", []string{"deployments", "statefulsets", "daemonsets", "replicasets"}},
		{"batch", "v1", []string{"jobs", "cronjobs"}},
		{"networking.k8s.io", "v1", []string{"ingresses", "networkpolicies"}},
		{"gateway.networking.k8s.io", "v1", []string{"httproutes", "tcproutes", "udproutes"}},
		{"rbac.authorization.k8s.io", "v1", []string{"rolebindings", "clusterrolebindings", "clusterroles", "roles"}},
		{"storage.k8s.io", "v1", []string{"storageclasses"}},
		{"spdx.softwarecomposition.kubescape.io", "v1beta1", []string{
			"applicationprofiles", "containerprofiles", "knownservers", "networkneighborhoods", "sbomsyfts", "sbomsyftfiltereds", "seccompprofiles",
		}},
		{"kubescape.io", "v1", []string{"seccompprofiles", "servicesscanresults", "rules"}},
		{"kubescape.io", "v1alpha1", []string{"operatorcommands"}},
		{"cilium.io", "v2", []string{"ciliumnetworkpolicies", "ciliumclusterwidenetworkpolicies"}},
		{"projectcalico.org", "v3", []string{"networkpolicies"}},
		{"networking.istio.io", "v1", []string{"gateways", "virtualservices"}},
		{"networking.istio.io", "v1beta1", []string{"gateways", "virtualservices"}},
		{"security.istio.io", "v1", []string{"authorizationpolicies"}},
		{"security.istio.io", "v1beta1", []string{"authorizationpolicies"}},
	} {
		for _, resource := range of.resources {
			kinds = append(kinds, synchronizer.Kind{Group: of.group, Version: of.version, Resource: resource})
		}
	}
	return kinds
}

// resumeFirstSyncs makes the appointments again that an earlier process had.
func (i *Ingester) resumeFirstSyncs(ctx context.Context) error {
	clusters, err := i.statuses(ctx, synchronizer.ClusterID{})
	if err != nil {
		return err
	}
	now := i.Now()
	for k := range clusters {
		first := clusters[k].FirstSeen
		if first.IsZero() || now.Sub(first) > firstSyncAge {
			continue
		}
		at := first.Add(i.FirstSyncAfter)
		if !at.After(now) {
			at = now.Add(i.FirstSyncAfter) // its client may have to connect again
		}
		i.agenda.connected(clusters[k].ClusterID, at)
	}
	return nil
}

// firstSync lists the sentinel for every kind of which nothing was heard. All of them
// are one call of the queue, and nothing is read of kinds that the store does not
// have: ten thousand clusters may have come at once.
func (i *Ingester) firstSync(ctx context.Context, id synchronizer.ClusterID) error {
	status, err := i.statusOf(ctx, id)
	if err != nil || status == nil {
		return err
	}
	if !status.FirstSeen.IsZero() && i.Now().Sub(status.FirstSeen) > firstSyncAge {
		return nil
	}
	known := make(map[synchronizer.Kind]bool, len(status.Kinds))
	for k := range status.Kinds {
		known[status.Kinds[k].Kind] = true
	}
	msgID, depth := chain(&synchronizer.Message{})
	var records []synchronizer.Record
	for _, kind := range i.V1Kinds {
		if known[kind] || i.appends(kind) {
			continue
		}
		l := listing{ClusterKind: synchronizer.ClusterKind{ClusterID: id, Kind: kind}, msgID: msgID, depth: depth}
		record, err := i.listRecord(&l, synchronizer.KnownObject{Name: sentinelName})
		if err != nil {
			return err
		}
		records = append(records, record)
	}
	if len(records) == 0 || !i.agenda.asks(id, status.FirstSeen) {
		return nil
	}
	i.metrics.listed.Add(float64(len(records)))
	return i.persist(ctx, "queue", "publishing first reconciliations", func(ctx context.Context) error {
		return i.Queue.Publish(ctx, synchronizer.In, records)
	})
}
