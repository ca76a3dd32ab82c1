// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ReconcileOptions configure Reconcile.
type ReconcileOptions struct {
	Programs
	SourceOptions
	Runs     int
	Command  string
	Progress *Progress
}

const (
	groupReconcile       = "reconciliation of a cluster in which nothing differs"
	groupReconcileFrames = "frames since the second start"
)

// reconcileConfig asks for a reconciliation a second after each connect (and up
// to a fifth of that, at random).
const reconcileConfig = `{"backend": {"accessKeys": "store", "reconciliationTaskConfig": {"reconcileAfterConnectSeconds": 1}}}`

// Reconcile synchronizes all objects, starts both processes again and measures
// the reconciliation that the backend asks for then: a list of all objects comes
// down, and nothing may go up for it but the checksums of the client's start.
func Reconcile(ctx context.Context, o ReconcileOptions) (_ *Report, err error) {
	report := &Report{Command: o.Command, At: time.Now(), Machine: thisMachine(), Runs: o.Runs}
	src, err := o.open(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	about := src.data()
	report.Data = &about
	report.Benchmark = fmt.Sprintf("reconciliation of %s unchanged objects, %s", number(float64(about.Objects)), o.apiServer())
	for run := range o.Runs {
		if err := o.run(ctx, report, src); err != nil {
			return nil, fmt.Errorf("run %d of %d: %w", run+1, o.Runs, err)
		}
	}
	return report, nil
}

func (o *ReconcileOptions) run(ctx context.Context, report *Report, src source) (err error) {
	r, err := newRig(o.Programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.startBackend(ctx, ""); err != nil {
		return err
	}
	setup := deploymentsOf(src, strategyCopy)
	if err := r.startClient(ctx, setup, ""); err != nil {
		return err
	}
	n := src.data().Objects
	if err := r.awaitStored(ctx, n, o.Progress); err != nil {
		return err
	}
	if _, err := r.awaitQuiet(ctx); err != nil {
		return err
	}
	first, err := r.client.usage()
	if err != nil {
		return err
	}
	if err := r.stopClient(); err != nil {
		return err
	}
	if err := r.stopBackend(); err != nil {
		return err
	}

	dir := filepath.Join(r.dir, "backend")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("writing the backend's configuration: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(reconcileConfig), 0o600); err != nil {
		return fmt.Errorf("writing the backend's configuration: %w", err)
	}
	if err := r.startBackend(ctx, "", "--config", dir); err != nil {
		return err
	}
	start := time.Now()
	if err := r.startClient(ctx, setup, ""); err != nil {
		return err
	}
	m, came, err := o.awaitList(ctx, r)
	if err != nil {
		return err
	}
	end := time.Now().Add(-time.Second) // of quiet
	listed, err := scrape(ctx, r.http, r.addresses.Health)
	if err != nil {
		return err
	}
	client, server, err := r.usages()
	if err != nil {
		return err
	}

	const frames, bytes = "synchronizer_link_frames_total", "synchronizer_link_bytes_total"
	sent, received := m.byLabel(frames, "event", "direction", "sent"), m.byLabel(frames, "event", "direction", "received")
	report.add(groupReconcile, "objects in the list", "", listed.sum("synchronizer_ingester_listed_objects_total"), atLeast(float64(n)))
	report.add(groupReconcile, "bodies sent (PutObject, PatchObject)", "", sent["PutObject"]+sent["PatchObject"], atMost(0))
	report.add(groupReconcile, "time from the client's start until nothing more is to be told", "s", end.Sub(start).Seconds(), nil)
	report.add(groupReconcile, "of which after the list has come", "s", max(0, end.Sub(came).Seconds()), nil)
	report.add(groupReconcile, "bytes down", "MiB", m.sum(bytes, "direction", "received")/mebibyte, nil)
	report.add(groupReconcile, "bytes up", "MiB", m.sum(bytes, "direction", "sent")/mebibyte, nil)
	report.add(groupClient, "RSS, greatest in the first sync", "MiB", float64(first.PeakRSS)/mebibyte, nil)
	report.add(groupClient, "RSS, greatest since the second start", "MiB", float64(client.PeakRSS)/mebibyte, below(100))
	report.add(groupClient, "RSS afterwards", "MiB", float64(client.RSS)/mebibyte, nil)
	report.add(groupServer, "RSS, greatest since the second start", "MiB", float64(server.PeakRSS)/mebibyte, nil)
	for _, event := range append(objectEvents, "Batch") {
		if sent[event] > 0 {
			report.add(groupReconcileFrames, "sent by the client: "+event, "", sent[event], nil)
		}
		if received[event] > 0 {
			report.add(groupReconcileFrames, "received by the client: "+event, "", received[event], nil)
		}
	}
	return nil
}

// awaitList waits until the list has come to the client and all has been told;
// came is when it was seen to have come.
func (o *ReconcileOptions) awaitList(ctx context.Context, r *rig) (m metrics, came time.Time, err error) {
	o.Progress.Start("reconciling", 0)
	defer o.Progress.Stop()
	err = await(ctx, r.client, 2*time.Minute, pollInterval, "the list of a reconciliation", func() (bool, error) {
		if err := r.backend.ended(); err != nil {
			return false, err
		}
		m, err := scrape(ctx, r.http, r.clientHealth)
		if err != nil {
			return false, nil //nolint:nilerr // its port is not open yet; await sees it end
		}
		return m.sum("synchronizer_link_frames_total", "direction", "received", "event", "Batch") > 0, nil
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	came = time.Now()
	m, err = r.awaitQuiet(ctx)
	return m, came, err
}
