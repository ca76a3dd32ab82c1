// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// FirstSyncOptions configure FirstSync.
type FirstSyncOptions struct {
	Programs
	SourceOptions
	Runs     int
	Strategy string        // one of Strategies; "" is copy for a large cluster, else patch
	Settle   time.Duration // between the last row and the second look at the memory
	Command  string
	Progress *Progress
}

// groups of figures.
const (
	groupFirst  = "first sync"
	groupClient = "client"
	groupServer = "backend"
	groupFrames = "frames of the first sync"
	groupAgain  = "second start of the client"
)

// smallCluster is up to how many objects the smaller goal for the client's memory
// holds.
const smallCluster = 10000

// largeCluster is from how many objects on whole objects are sent unless asked
// otherwise: the baselines of patches are bounded, so few of so many have one.
const largeCluster = 100000

func (o *FirstSyncOptions) strategy() string {
	switch {
	case o.Strategy != "":
		return o.Strategy
	case o.Objects >= largeCluster:
		return strategyCopy
	}
	return strategyPatch
}

// FirstSync measures how long all objects of a cluster take into an empty
// backend, and what that costs.
func FirstSync(ctx context.Context, o FirstSyncOptions) (_ *Report, err error) {
	report := &Report{Command: o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs}
	src, err := o.open(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	about := src.data()
	report.Data = &about
	report.Benchmark = fmt.Sprintf("first sync of %s objects, %s, strategy %s", number(float64(about.Objects)), o.apiServer(), o.strategy())
	var profiles stageTotals
	for run := range o.Runs {
		if err := o.run(ctx, report, src, run, &profiles); err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", run+1, o.Runs, err)
		}
	}
	profiles.add(report, "object", float64(about.Objects*o.Runs))
	if o.Client == "" {
		report.Notes = append(report.Notes, "The client is `synchronizer agent`. cmd/client, which links less, is smaller: name it with --client.")
	}
	if o.Profiles == "" {
		report.Notes = append(report.Notes, "CPU time per stage: with --cpu-profile FOLDER.")
	}
	return report, nil
}

// apiServer is the kind of source in a benchmark's name.
func (o SourceOptions) apiServer() string {
	switch {
	case o.Kubeconfig != "":
		return "real API server"
	case o.Recording != "":
		return "recorded"
	}
	return "generated"
}

func (o *FirstSyncOptions) run(ctx context.Context, report *Report, src source, run int, profiles *stageTotals) (err error) {
	r, err := newRig(o.Programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.startBackend(ctx, fmt.Sprintf("first-sync-%d-backend", run)); err != nil {
		return err
	}
	idle, err := r.backend.usage()
	if err != nil {
		return err
	}
	n := src.data().Objects
	start := time.Now()
	if err := r.startClient(ctx, deploymentsOf(src, o.strategy()), fmt.Sprintf("first-sync-%d-client", run)); err != nil {
		return err
	}
	if err := r.awaitStored(ctx, n, o.Progress); err != nil {
		return err
	}
	elapsed := time.Since(start)
	client, server, err := r.usages()
	if err != nil {
		return err
	}
	server.CPU -= idle.CPU
	if err := r.nextPhase(ctx); err != nil {
		return err
	}
	if err := wait(ctx, o.Settle); err != nil {
		return err
	}
	clientAfter, serverAfter, err := r.usages()
	if err != nil {
		return err
	}
	m, err := r.awaitQuiet(ctx)
	if err != nil {
		return err
	}

	objects := float64(n)
	rate, timeGoal := atLeast(3000), (*Goal)(nil)
	if o.Kubeconfig != "" {
		rate = nil
		if n == 5000 {
			timeGoal = below(20)
		}
	}
	report.add(groupFirst, "time from the client's start to the last committed row", "s", elapsed.Seconds(), timeGoal)
	report.add(groupFirst, "objects per second", "objects/s", objects/elapsed.Seconds(), rate)
	bytes := m.sum("synchronizer_link_bytes_total")
	report.add(groupFirst, "bytes on the link", "MiB", bytes/mebibyte, nil)
	report.add(groupFirst, "bytes on the link, of the objects' JSON", "%", 100*bytes/(objects*src.data().MeanBytes), nil)
	checksum, err := checksumTime(src.data().sample)
	if err != nil {
		return err
	}
	perObject := float64(client.CPU.Nanoseconds()) / 1e3 / objects
	report.add(groupClient, cpuPerObject, "µs", perObject, below(200))
	report.add(groupClient, "of which checksum v1 (measured apart)", "µs", checksum, nil)
	report.add(groupClient, "checksum v1, of the CPU time", "%", 100*checksum/perObject, nil)
	report.add(groupServer, cpuPerObject, "µs", float64(server.CPU.Nanoseconds())/1e3/objects, nil)
	peak, after := below(100), atMost(48)
	if n > smallCluster {
		after = below(64)
	}
	addMemory(report, groupClient, clientAfter, r.clientPeak, peak, after)
	addMemory(report, groupServer, serverAfter, r.backendPeakAnon, nil, nil)
	for _, direction := range []string{"sent", "received"} {
		frames := m.byLabel("synchronizer_link_frames_total", "event", "direction", direction)
		for _, event := range []string{"NewChecksum", "GetObject", "PutObject", "PatchObject", "ObjectDeleted", "Batch"} {
			if frames[event] > 0 {
				report.add(groupFrames, direction+" by the client: "+event, "", frames[event], nil)
			}
		}
	}
	if err := o.again(ctx, report, r, src, run); err != nil {
		return err
	}
	return profiles.read(r, 0)
}

// usages reads both processes.
func (r *rig) usages() (client, backend usage, err error) {
	if err = r.sample(); err != nil {
		return client, backend, err
	}
	if client, err = r.client.usage(); err != nil {
		return client, backend, err
	}
	backend, err = r.backend.usage()
	return client, backend, err
}

const cpuPerObject = "CPU time per object"

func addMemory(report *Report, group string, settled usage, peakAnon int64, peak, after *Goal) {
	report.add(group, "RSS, greatest", "MiB", float64(settled.PeakRSS)/mebibyte, peak)
	report.add(group, "RSS afterwards", "MiB", float64(settled.RSS)/mebibyte, after)
	report.add(group, "private memory (RssAnon), greatest", "MiB", float64(peakAnon)/mebibyte, nil)
	report.add(group, "private memory (RssAnon) afterwards", "MiB", float64(settled.Anon)/mebibyte, nil)
}

// again starts the client once more: it must not send the body of any object.
func (o *FirstSyncOptions) again(ctx context.Context, report *Report, r *rig, src source, run int) error {
	first := r.clientProfile
	if err := r.stopClient(); err != nil {
		return err
	}
	start := time.Now()
	if err := r.startClient(ctx, deploymentsOf(src, o.strategy()), fmt.Sprintf("first-sync-%d-client-again", run)); err != nil {
		return err
	}
	m, err := r.awaitQuiet(ctx)
	if err != nil {
		return err
	}
	elapsed := time.Since(start) - time.Second // of quiet
	again, err := r.client.usage()
	if err != nil {
		return err
	}
	frames := m.byLabel("synchronizer_link_frames_total", "event", "direction", "sent")
	report.add(groupAgain, "bodies sent (PutObject, PatchObject)", "", frames["PutObject"]+frames["PatchObject"], atMost(0))
	report.add(groupAgain, "checksums sent (NewChecksum)", "", frames["NewChecksum"], nil)
	report.add(groupAgain, "bytes on the link", "MiB", m.sum("synchronizer_link_bytes_total")/mebibyte, nil)
	report.add(groupAgain, "time until nothing more is to be told", "s", elapsed.Seconds(), nil)
	report.add(groupAgain, "CPU time per object, client", "µs", float64(again.CPU.Microseconds())/float64(src.data().Objects), nil)
	report.add(groupAgain, "RSS, greatest", "MiB", float64(again.PeakRSS)/mebibyte, nil)
	r.clientProfile = first
	return nil
}
