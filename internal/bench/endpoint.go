// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"synchronizer"
)

// EndpointOptions configure Endpoint.
type EndpointOptions struct {
	Programs
	Kubeconfig string // of a real API server, which says who the callers are
	Callers    int
	Duration   time.Duration // of the flood, and again of the calm after it
	Runs       int
	Command    string
	Progress   *Progress
}

const (
	groupAlerts  = "alerts of callers that post as fast as they are answered"
	groupStalled = "answers to a few alerts, without and with a stalled upload of 4 MiB"
	groupReceipt = "what the backend has received"
)

const (
	// calmCallers post calmRate alerts per second each while uploads stall: few
	// enough that none waits for another.
	calmCallers, calmRate = 4, 100
	// calmPhases is how often it is looked at, in turn without and with one; often,
	// so that what else happens on the machine is in both.
	calmPhases = 20
)

// reportKinds are what the endpoint takes.
var reportKinds = []synchronizer.Kind{
	{Group: "kubescape.io", Version: "v1", Resource: "runtimealerts"},
	{Group: "kubescape.io", Version: "v1", Resource: "networkstreams"},
}

// Endpoint measures the client's HTTP endpoint with callers whom the API server
// has to be asked about: how many alerts per second it accepts, and whether what
// it accepted arrived, once. Then how long a few callers wait while an upload of
// another one stalls.
func Endpoint(ctx context.Context, o EndpointOptions) (_ *Report, err error) {
	report := &Report{
		Benchmark: fmt.Sprintf("HTTP endpoint, %s, real API server", plural(o.Callers, "caller")),
		Command:   o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs,
	}
	cluster, tokens, err := openAccounts(ctx, o.Kubeconfig, o.Callers, o.Progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.close()) }()
	for run := range o.Runs {
		if err := o.run(ctx, report, cluster, tokens); err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", run+1, o.Runs, err)
		}
	}
	report.Notes = append(report.Notes, fmt.Sprintf("An alert has %s bytes, a name of its own, and comes from a service account with its own token and connection. "+
		"A caller that is told to come later (429) does not wait, which callers in the field do. The callers run on the same cores.", number(alertBytes)))
	return report, nil
}

func (o *EndpointOptions) run(ctx context.Context, report *Report, cluster *real, tokens []string) (err error) {
	r, err := newRig(o.Programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.startBackend(ctx, ""); err != nil {
		return err
	}
	setup := clientSetup{
		kubeconfig: cluster.kubeconfig(), namespaces: cluster.namespaces(), strategy: strategyCopy,
		reports: reportKinds, podNamespace: cluster.namespace,
	}
	if err := r.startClient(ctx, setup, ""); err != nil {
		return err
	}
	callers := make([]*caller, len(tokens))
	for i, token := range tokens {
		callers[i] = newCaller(r.endpoint, cluster.namespace, token, i)
		defer callers[i].hangUp()
	}
	if err := firstAccepted(ctx, r, callers[0]); err != nil {
		return err
	}
	before := make([]int, len(callers))
	for i, c := range callers {
		before[i] = len(c.posts)
	}
	clientBefore, serverBefore, err := r.usages()
	if err != nil {
		return err
	}
	took, err := o.flood(ctx, callers)
	if err != nil {
		return err
	}
	flood := tally(callers, before...)
	if err := o.drain(ctx, r, tally(callers).accepted); err != nil {
		return err
	}
	client, server, err := r.usages()
	if err != nil {
		return err
	}
	calm, stalled, err := o.calm(ctx, r, callers)
	if err != nil {
		return err
	}
	all := tally(callers)
	if err := o.drain(ctx, r, all.accepted); err != nil {
		return err
	}
	got, err := received(ctx, r, callers)
	if err != nil {
		return err
	}

	accepted := float64(flood.accepted)
	report.add(groupAlerts, "accepted (202), per second", "/s", accepted/took.Seconds(), atLeast(3000))
	report.add(groupAlerts, "accepted (202)", "", accepted, nil)
	report.add(groupAlerts, "told to come later (429)", "", float64(flood.later), nil)
	report.add(groupAlerts, "other answers, or none", "", float64(flood.others), nil)
	report.add(groupAlerts, "time to a 202, p50", "ms", milliseconds(quantile(flood.times, .50)), nil)
	report.add(groupAlerts, "time to a 202, p99", "ms", milliseconds(quantile(flood.times, .99)), nil)
	report.add(groupReceipt, "alerts accepted, those of the calm too", "", float64(all.accepted), nil)
	report.add(groupReceipt, "accepted and not received", "", float64(got.lost), atMost(0))
	report.add(groupReceipt, "received more than once", "", float64(got.repeated), atMost(0))
	report.add(groupReceipt, "received although refused (429)", "", float64(got.refused), atMost(0))
	report.add(groupReceipt, "received with another answer, or none", "", float64(got.others), nil)
	p99, p99stalled := milliseconds(quantile(calm, .99)), milliseconds(quantile(stalled, .99))
	report.add(groupStalled, "p50 without", "ms", milliseconds(quantile(calm, .50)), nil)
	report.add(groupStalled, "p50 with", "ms", milliseconds(quantile(stalled, .50)), nil)
	report.add(groupStalled, "p99 without", "ms", p99, nil)
	report.add(groupStalled, "p99 with", "ms", p99stalled, nil)
	report.add(groupStalled, "p99 with, as a multiple of that without", "", p99stalled/p99, atMost(2))
	last, lastServer, err := r.usages()
	if err != nil {
		return err
	}
	report.add(groupClient, "RSS, greatest", "MiB", float64(last.PeakRSS)/mebibyte, below(96))
	report.add(groupClient, "RSS afterwards", "MiB", float64(last.RSS)/mebibyte, nil)
	report.add(groupClient, "CPU time per accepted alert", "µs", float64((client.CPU-clientBefore.CPU).Microseconds())/accepted, nil)
	report.add(groupServer, "RSS, greatest", "MiB", float64(lastServer.PeakRSS)/mebibyte, nil)
	report.add(groupServer, "CPU time per accepted alert", "µs", float64((server.CPU-serverBefore.CPU).Microseconds())/accepted, nil)
	return nil
}

// firstAccepted posts until an alert is accepted: the client has to connect, and
// the API server to know the callers' rights.
func firstAccepted(ctx context.Context, r *rig, c *caller) error {
	return await(ctx, r.client, startTimeout, 5*pollInterval, "the endpoint to accept an alert", func() (bool, error) {
		if _, err := scrape(ctx, r.http, r.clientHealth); err != nil {
			return false, nil //nolint:nilerr // its ports are not open yet; await sees it end
		}
		if err := c.post(ctx); err != nil {
			return false, err
		}
		return c.posts[len(c.posts)-1].status == http.StatusAccepted, nil
	})
}

// flood lets all callers post as fast as they are answered.
func (o *EndpointOptions) flood(ctx context.Context, callers []*caller) (took time.Duration, err error) {
	o.Progress.Start("posting", 0)
	defer o.Progress.Stop()
	g, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for _, c := range callers {
		g.Go(func() error {
			for time.Since(start) < o.Duration {
				if err := c.post(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	return time.Since(start), err
}

// drain waits until the backend has stored what was accepted, or stores nothing
// more for drainTimeout.
func (o *EndpointOptions) drain(ctx context.Context, r *rig, accepted int) error {
	o.Progress.Start("storing", accepted)
	defer o.Progress.Stop()
	last, since := 0, time.Now()
	return await(ctx, r.client, 24*time.Hour, 5*pollInterval, "the alerts to be stored", func() (bool, error) {
		if err := r.backend.ended(); err != nil {
			return false, err
		}
		stored, err := r.stored(ctx)
		if err != nil {
			return false, err
		}
		o.Progress.Set(stored)
		if stored != last {
			last, since = stored, time.Now()
		}
		return stored >= accepted || time.Since(since) > drainTimeout, nil
	})
}

// calm lets a few callers post now and then, in turn without and with a stalled
// upload of another one, and gives the sorted times of what was accepted.
func (o *EndpointOptions) calm(ctx context.Context, r *rig, callers []*caller) (without, with []time.Duration, err error) {
	o.Progress.Start("stalling", 0)
	defer o.Progress.Stop()
	few, other := callers[:min(calmCallers, len(callers))], callers[len(callers)-1]
	for phase := range calmPhases {
		stalling := phase%2 == 1
		times, err := o.calmPhase(ctx, r, few, other.token, stalling)
		if err != nil {
			return nil, nil, err
		}
		if stalling {
			with = append(with, times...)
		} else {
			without = append(without, times...)
		}
	}
	slices.Sort(without)
	slices.Sort(with)
	return without, with, nil
}

func (o *EndpointOptions) calmPhase(ctx context.Context, r *rig, callers []*caller, token string, stalling bool) ([]time.Duration, error) {
	slots := 0.0
	if stalling {
		conn, err := stall(ctx, r.endpoint, token)
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		slots = 1
	}
	err := await(ctx, r.client, startTimeout, pollInterval, "the stalled upload to begin or to end", func() (bool, error) {
		m, err := scrape(ctx, r.http, r.clientHealth)
		return err == nil && m.sum("synchronizer_endpoint_slots_in_use") == slots, err
	})
	if err != nil {
		return nil, err
	}
	before := make([]int, len(callers))
	g, posting := errgroup.WithContext(ctx)
	start := time.Now()
	for i, c := range callers {
		before[i] = len(c.posts)
		g.Go(func() error {
			for due := start; time.Since(start) < o.Duration/calmPhases; due = due.Add(time.Second / calmRate) {
				if err := wait(posting, time.Until(due)); err != nil {
					return err
				}
				if err := c.post(posting); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var times []time.Duration
	for i, c := range callers {
		for _, p := range c.posts[before[i]:] {
			if p.status == http.StatusAccepted {
				times = append(times, p.took)
			}
		}
	}
	if len(times) == 0 {
		return nil, errors.New("the endpoint has accepted none of the alerts of a few callers")
	}
	return times, nil
}
