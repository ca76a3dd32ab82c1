// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"synchronizer"
)

// IdleOptions configure Idle.
type IdleOptions struct {
	Programs
	SourceOptions
	// Kinds is how many kinds the client is configured with, and Absent how many of
	// them the API server does not have; see CheckKinds.
	Kinds, Absent int
	Settle        time.Duration // from when the client has told everything
	Duration      time.Duration // that is measured
	Runs          int
	Command       string
	Progress      *Progress
}

const (
	groupIdle     = "client of a cluster in which nothing happens"
	groupRequests = "requests to the API server, by verb"
)

// CheckKinds tells whether so many kinds can be had.
func (o *IdleOptions) CheckKinds() error {
	if served := o.Kinds - o.Absent; o.Absent < 0 || served < 1 || served > len(builtinKinds) {
		return fmt.Errorf("%w: %d kinds of which %d are absent: from 1 to %d must be there", synchronizer.ErrInvalid, o.Kinds, o.Absent, len(builtinKinds))
	}
	return nil
}

// Idle measures what a client costs when nothing happens: CPU time, requests to
// the API server, and memory. Some of its kinds are absent, as custom resources
// are whose operator is not installed: waiting for them must not cost either.
func Idle(ctx context.Context, o IdleOptions) (_ *Report, err error) {
	if err := o.CheckKinds(); err != nil {
		return nil, err
	}
	report := &Report{
		Benchmark: fmt.Sprintf("idle, %s of which %d absent, %s", plural(o.Kinds, "kind"), o.Absent, o.apiServer()),
		Command:   o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs,
	}
	served := o.Kinds - o.Absent
	src, err := o.open(ctx, o.Progress, emptySets(served)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	about := src.data()
	report.Data = &about
	setup := clientSetup{
		kubeconfig: src.kubeconfig(), namespaces: []string{}, watched: served, strategy: strategyCopy,
		kinds: append(servedKinds(served), absentKinds(o.Absent)...),
	}
	for run := range o.Runs {
		if err := o.run(ctx, report, setup); err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", run+1, o.Runs, err)
		}
	}
	return report, nil
}

func (o *IdleOptions) run(ctx context.Context, report *Report, setup clientSetup) (err error) {
	r, err := newRig(o.Programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.startBackend(ctx, ""); err != nil {
		return err
	}
	if err := r.startClient(ctx, setup, ""); err != nil {
		return err
	}
	o.Progress.Start("idle", 0)
	defer o.Progress.Stop()
	if _, err := r.awaitQuiet(ctx); err != nil {
		return err
	}
	if err := wait(ctx, o.Settle); err != nil {
		return err
	}
	before, err := scrape(ctx, r.http, r.clientHealth)
	if err != nil {
		return err
	}
	clientBefore, serverBefore, err := r.usages()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := wait(ctx, o.Duration); err != nil {
		return err
	}
	client, server, err := r.usages()
	if err != nil {
		return err
	}
	took := time.Since(start)
	after, err := scrape(ctx, r.http, r.clientHealth)
	if err != nil {
		return err
	}

	percent := func(before, after usage) float64 { return 100 * (after.CPU - before.CPU).Seconds() / took.Seconds() }
	perMinute := func(n float64) float64 { return n / took.Minutes() }
	const requests, states, frames = "synchronizer_kube_requests_total", "synchronizer_agent_kind_state", "synchronizer_link_frames_total"
	report.add(groupIdle, "CPU time, of a core", "%", percent(clientBefore, client), below(1))
	report.add(groupIdle, "requests to the API server per minute", "", perMinute(after.sum(requests)-before.sum(requests)), atMost(30))
	report.add(groupIdle, "messages on the link per minute", "", perMinute(after.sum(frames)-before.sum(frames)), nil)
	report.add(groupIdle, "RSS", "MiB", float64(client.RSS)/mebibyte, below(64))
	report.add(groupIdle, "private memory (RssAnon)", "MiB", float64(client.Anon)/mebibyte, nil)
	report.add(groupIdle, "kinds that are watched", "", after.sum(states, "state", "watching"), nil)
	report.add(groupIdle, "kinds that are not", "", after.sum(states)-after.sum(states, "state", "watching"), nil)
	report.add(groupServer, "CPU time, of a core", "%", percent(serverBefore, server), nil)
	report.add(groupServer, "RSS", "MiB", float64(server.RSS)/mebibyte, nil)
	was, is := before.byLabel(requests, "verb"), after.byLabel(requests, "verb")
	verbs := make([]string, 0, len(is))
	for verb := range is {
		verbs = append(verbs, verb)
	}
	slices.Sort(verbs)
	for _, verb := range verbs {
		report.add(groupRequests, verb+" per minute", "", perMinute(is[verb]-was[verb]), nil)
		report.add(groupRequests, verb+" until then", "", was[verb], nil)
	}
	return nil
}
