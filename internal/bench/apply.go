// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"synchronizer"
	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
	"synchronizer/internal/config"
	"synchronizer/internal/queue"
)

// ApplyOptions configure Apply.
type ApplyOptions struct {
	Programs
	Kubeconfig string // of a real API server
	Puts       int
	Runs       int
	Command    string
	Progress   *Progress
}

const (
	groupApply = "objects that the backend puts into the cluster"
	// publishAtOnce is how many records are published in one call.
	publishAtOnce = 100
	// putBytes is how long the text in one of the objects is.
	putBytes = 1 << 10
)

var configMaps = synchronizer.Kind{Version: "v1", Resource: "configmaps"}

// Apply measures how fast puts on the queue become objects of the cluster. The
// backend is in this process, for the puts are published on its own queue.
func Apply(ctx context.Context, o ApplyOptions) (_ *Report, err error) {
	report := &Report{
		Benchmark: fmt.Sprintf("apply %s, real API server", plural(o.Puts, "put")),
		Command:   o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs,
		Notes: []string{"Only the client is a process of its own: the backend runs in that of the benchmark, which publishes on the backend's queue. " +
			fmt.Sprintf("Each put makes a ConfigMap with %s bytes of text, which comes back as a change.", number(putBytes))},
	}
	for run := range o.Runs {
		if err := o.run(ctx, report); err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", run+1, o.Runs, err)
		}
	}
	return report, nil
}

func (o *ApplyOptions) run(ctx context.Context, report *Report) (err error) {
	cluster, err := openNamespace(ctx, o.Kubeconfig, [2]string{"/api/v1", configMaps.Resource})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.close()) }()
	r, err := newRig(o.Programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	broker, err := r.runBackend(ctx)
	if err != nil {
		return err
	}
	setup := clientSetup{
		kubeconfig: cluster.kubeconfig(), namespaces: cluster.namespaces(),
		kinds: []synchronizer.Kind{configMaps}, watched: 1, strategy: strategyCopy,
	}
	if err := r.startClient(ctx, setup, ""); err != nil {
		return err
	}
	if err := r.awaitLink(ctx); err != nil {
		return err
	}
	before, err := r.client.usage()
	if err != nil {
		return err
	}
	records, err := o.records(cluster.namespace)
	if err != nil {
		return err
	}

	start := time.Now()
	for from := 0; from < len(records); from += publishAtOnce {
		if err := broker.Publish(ctx, synchronizer.In, records[from:min(from+publishAtOnce, len(records))]); err != nil {
			return fmt.Errorf("publishing puts: %w", err)
		}
	}
	published := time.Since(start)
	if err := o.awaitObjects(ctx, r, cluster); err != nil {
		return err
	}
	took := time.Since(start)
	m, err := r.awaitQuiet(ctx)
	if err != nil {
		return err
	}
	client, err := r.client.usage()
	if err != nil {
		return err
	}

	puts := float64(o.Puts)
	report.add(groupApply, "objects per second, until all exist", "objects/s", puts/took.Seconds(), atLeast(200))
	report.add(groupApply, "time from the first put until all exist", "s", took.Seconds(), nil)
	report.add(groupApply, "of which to publish them", "s", published.Seconds(), nil)
	report.add(groupApply, "requests to the API server per object", "", m.sum("synchronizer_kube_requests_total")/puts, nil)
	applied := m.sum("synchronizer_agent_applied_total", "outcome", "applied")
	report.add(groupApply, "puts that were applied", "", applied, atLeast(puts))
	report.add(groupApply, "puts with another outcome", "", m.sum("synchronizer_agent_applied_total")-applied, nil)
	report.add(groupClient, "RSS, greatest", "MiB", float64(client.PeakRSS)/mebibyte, nil)
	report.add(groupClient, "CPU time per object", "µs", float64((client.CPU-before.CPU).Microseconds())/puts, nil)
	return nil
}

// records are the puts as a producer on the queue makes them.
func (o *ApplyOptions) records(namespace string) ([]synchronizer.Record, error) {
	encoder := queue.Encoder{Encoding: queue.Compact, Producer: queue.Backend}
	records := make([]synchronizer.Record, o.Puts)
	for i := range records {
		name := putName(i)
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{"number":"%d","text":%q}}`,
			name, namespace, i, strings.Repeat("synchronizer ", putBytes/13))
		var err error
		records[i], err = encoder.Encode(&synchronizer.Message{
			Event: synchronizer.EventPut, Depth: 1, MsgID: uuid.NewString(),
			ClusterID: synchronizer.ClusterID{Account: account, Cluster: clusterName},
			Kind:      configMaps, Namespace: namespace, Name: name, Body: body,
		}, queue.Extra{})
		if err != nil {
			return nil, fmt.Errorf("encoding a put: %w", err)
		}
	}
	return records, nil
}

func putName(i int) string { return fmt.Sprintf("put-%06d", i) }

// awaitObjects waits until every put has its object. It counts, which costs the
// API server little, and looks at the names when there are enough.
func (o *ApplyOptions) awaitObjects(ctx context.Context, r *rig, cluster *real) error {
	o.Progress.Start("applying", o.Puts)
	defer o.Progress.Stop()
	last, since := 0, time.Now()
	return await(ctx, r.client, 24*time.Hour, pollInterval, "the objects to exist", func() (bool, error) {
		n, _, err := cluster.configMaps(ctx, 1)
		if err != nil {
			return false, err
		}
		o.Progress.Set(n)
		if n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) > stallTimeout {
			return false, fmt.Errorf("no object came for %s: %d of %d exist; the end of the client's log:\n%s", stallTimeout, n, o.Puts, r.client.tail())
		}
		if n < o.Puts {
			return false, nil
		}
		_, names, err := cluster.configMaps(ctx, 0)
		for i := range o.Puts {
			if _, there := names[putName(i)]; !there {
				return false, err
			}
		}
		return true, nil
	})
}

// configMaps counts those of the namespace, and gives up to limit (0: all) names.
func (r *real) configMaps(ctx context.Context, limit int) (n int, names map[string]struct{}, err error) {
	path := fmt.Sprintf("%s?limit=%d", r.collection(r.collections[0]), limit)
	answer, err := r.do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return 0, nil, fmt.Errorf("counting objects: %w", err)
	}
	var list struct {
		Metadata struct{ RemainingItemCount int }
		Items    []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return 0, nil, fmt.Errorf("counting objects: reading the answer: %w", err)
	}
	names = map[string]struct{}{}
	for i := range list.Items {
		names[list.Items[i].Metadata.Name] = struct{}{}
	}
	return len(list.Items) + list.Metadata.RemainingItemCount, names, nil
}

// runBackend runs a backend in this process, with a log in the run's folder, and
// gives its queue. close ends it.
func (r *rig) runBackend(ctx context.Context) (synchronizer.Queue, error) {
	var env config.Env
	for key, value := range map[string]string{
		"SYNCHRONIZER_BACKEND_DATADIR": r.dataDir(), "SYNCHRONIZER_BACKEND_LISTEN": "127.0.0.1:0",
		"SYNCHRONIZER_API_LISTEN": "127.0.0.1:0", "SYNCHRONIZER_BACKEND_HEALTHPORT": "0",
		"SYNCHRONIZER_BACKEND_ACCESSKEYS": config.AccessKeysStore,
	} {
		env = env.With(key, value)
	}
	c, _, err := config.LoadUp(env)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(r.dir, "backend.log"))
	if err != nil {
		return nil, fmt.Errorf("starting the backend: %w", err)
	}
	backend, err := server.Open(ctx, app.NewProcess(log), c)
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	r.addresses.Clients = backend.ClientsAddress()
	broker := backend.Queue() // before Run, which may end it
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- backend.Run(running) }()
	r.endBackend = func() error {
		stop()
		return errors.Join(<-done, log.Close())
	}
	return broker, nil
}

// awaitLink waits until the client is connected and has told everything.
func (r *rig) awaitLink(ctx context.Context) error {
	err := await(ctx, r.client, startTimeout, pollInterval, "the client to connect", func() (bool, error) {
		m, err := scrape(ctx, r.http, r.clientHealth)
		return err == nil && m.sum("synchronizer_agent_connected") == 1, nil //nolint:nilerr // its port is not open yet; await sees it end
	})
	if err != nil {
		return err
	}
	_, err = r.awaitQuiet(ctx)
	return err
}
