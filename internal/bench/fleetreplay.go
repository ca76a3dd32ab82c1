// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

var replayGoal = below(1.5)

const (
	replayBytes   = 64 << 20 // the default of backend.replay.maxBytes
	replayClients = 500
	replayBeyond  = 2 // times the limit, so that what is old has to go
)

// replay fills the memory of a server for clients that are away, and for
// comparison publishes the same to one that keeps nothing.
func (o *FleetOptions) replay(ctx context.Context, report *Report) error {
	limit := max(1<<20, int64(float64(replayBytes)*min(1, o.Seconds/FleetSeconds)))
	var kept, without float64
	g, running := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		kept, err = o.grown(running, "replay", limit, limit)
		return err
	})
	g.Go(func() (err error) {
		without, err = o.grown(running, "replay-off", 0, limit)
		return err
	})
	o.Progress.Start("replay", 0)
	defer o.Progress.Stop()
	if err := g.Wait(); err != nil {
		return err
	}
	report.add(groupReplay, "limit (backend.replay.maxBytes)", "MiB", float64(limit)/mebibyte, nil)
	report.add(groupReplay, "live heap after a collection, growth", "MiB", kept/mebibyte, nil)
	report.add(groupReplay, "growth, as a multiple of the limit", "", kept/float64(limit), replayGoal)
	report.add(groupReplay, "growth where replay is off, after the same commands", "MiB", without/mebibyte, nil)
	report.Notes = append(report.Notes, fmt.Sprintf("Replay: commands of %s bytes for %d clients that are not connected, %d times the limit in all; before and after, the live heap of the server's process is looked at behind a collection, when it has not become less for %s, which is longer than the queue keeps what was read last.",
		number(recordBytes), replayClients, replayBeyond, calmFor))
	return nil
}

// grown is how many bytes the live heap has grown by when the commands have
// reached the server; replay is its limit, 0 if it is off.
func (o *FleetOptions) grown(ctx context.Context, profile string, replay, limit int64) (_ float64, err error) {
	r, err := o.startFleet(ctx, profile, false, replay)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	// A client that is connected shows how far the server has read.
	const marker = MostFleet - 1
	f, err := connectFleet(ctx, r.addresses.Clients, marker, 1, nil)
	if err != nil {
		return 0, err
	}
	defer f.close()
	if err := r.letIn(ctx, 1); err != nil {
		return 0, err
	}
	flush := func(n int64) error {
		if err := r.command(ctx, fleetCommands{First: marker, Clients: 1, Rounds: 1}); err != nil {
			return err
		}
		return f.awaitReceived(ctx, n)
	}
	if err := flush(1); err != nil {
		return 0, err
	}
	before, err := r.memory(ctx)
	if err != nil {
		return 0, err
	}
	rounds := max(1, int(replayBeyond*limit/recordBytes/replayClients))
	if err := r.command(ctx, fleetCommands{Clients: replayClients, Rounds: rounds, Bytes: recordBytes}); err != nil {
		return 0, err
	}
	if err := flush(2); err != nil {
		return 0, err
	}
	after, err := r.calm(ctx, time.Duration(float64(calmFor)*min(1, o.Seconds/FleetSeconds)))
	return float64(after - before.Live), err
}

// calmFor is longer than the queue keeps in memory what was read last.
const calmFor = 12 * time.Second

// calm gives the least live heap, when it has not become less for a while.
func (r *fleetRig) calm(ctx context.Context, d time.Duration) (least int64, err error) {
	for since := time.Now(); time.Since(since) < d; {
		if err := wait(ctx, d/12); err != nil {
			return 0, err
		}
		now, err := r.memory(ctx)
		if err != nil {
			return 0, err
		}
		if least == 0 || now.Live < least-least/100 {
			least, since = now.Live, time.Now()
		}
	}
	return least, nil
}
