// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"synchronizer/internal/api"
)

// Programs are what the benchmark starts.
type Programs struct {
	// Synchronizer is the one program: `up` is the backend, `agent` the client.
	Synchronizer string
	// Client replaces `agent` if it is set: a program that takes its configuration
	// from the folder in CONFIG and the cluster from KUBECONFIG, as cmd/client does.
	Client string
	// Profiles is the folder for CPU profiles; none are taken if it is empty.
	Profiles string
}

const (
	account     = "local"
	clusterName = "bench"
	// pollInterval is how often the benchmark looks, and so the resolution of what
	// it waits for.
	pollInterval = 20 * time.Millisecond
	startTimeout = 30 * time.Second
)

// rig is one backend and one client in a folder of their own.
type rig struct {
	programs Programs
	dir      string
	http     *http.Client

	backend, client *process
	endBackend      func() error // of one in this process; nil: there is none
	// What the files of their CPU profiles begin with; empty without profiles.
	backendProfile, clientProfile string

	addresses                   addresses
	api                         *api.Client
	clientHealth                string
	endpoint                    string // host:port of the client's HTTP endpoint
	watched                     int    // kinds that the client is to watch
	backendPeakAnon, clientPeak int64  // greatest RssAnon seen
}

// addresses is the file addresses.json of `up`.
type addresses struct{ Clients, API, Health string }

// newRig makes the folder. Close removes it and ends the processes.
func newRig(programs Programs) (*rig, error) {
	dir, err := os.MkdirTemp("", "synchronizer-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the run: %w", err)
	}
	return &rig{programs: programs, dir: dir, http: &http.Client{Transport: &http.Transport{}}}, nil
}

// close ends the client, then the backend, and removes the folder.
func (r *rig) close() error {
	var errs []error
	for _, p := range []*process{r.client, r.backend} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	if r.endBackend != nil {
		errs = append(errs, r.endBackend())
	}
	r.http.CloseIdleConnections()
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// argv is the command line of the program, with a CPU profile if one was asked
// for.
func (r *rig) argv(profile string, args ...string) []string {
	if profile != "" {
		args = append([]string{"bench", "profiled", profile, "--"}, args...)
	}
	return append([]string{r.programs.Synchronizer}, args...)
}

// profilePath is what the files of the CPU profiles of a process begin with; empty without profiles.
func (r *rig) profilePath(name string) (string, error) {
	if r.programs.Profiles == "" {
		return "", nil
	}
	dir, err := filepath.Abs(r.programs.Profiles)
	if err != nil {
		return "", fmt.Errorf("resolving the folder of profiles: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of profiles: %w", err)
	}
	return filepath.Join(dir, name), nil
}

// startBackend starts `up` with its defaults on free ports and waits until it is
// ready. More are flags of `up`.
func (r *rig) startBackend(ctx context.Context, profile string, more ...string) (err error) {
	if r.backendProfile, err = r.profilePath(profile); err != nil {
		return err
	}
	data := r.dataDir()
	args := append([]string{
		"up", "--data-dir", data, "--listen", "127.0.0.1:0", "--api-listen", "127.0.0.1:0", "--health-port", "0",
	}, more...)
	if r.backend, err = startProcess(ctx, "backend", filepath.Join(r.dir, "backend.log"), r.argv(r.backendProfile, args...)...); err != nil {
		return err
	}
	var text []byte
	err = await(ctx, r.backend, startTimeout, time.Millisecond, "the backend to be ready", func() (bool, error) {
		text, err = os.ReadFile(filepath.Join(data, "addresses.json"))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &r.addresses); err != nil {
		return fmt.Errorf("reading the addresses of the backend: %w", err)
	}
	_, port, err := net.SplitHostPort(r.addresses.Health)
	if err != nil {
		return fmt.Errorf("reading the addresses of the backend: %w", err)
	}
	r.addresses.Health = net.JoinHostPort("127.0.0.1", port)
	token, err := os.ReadFile(filepath.Join(data, "api-token"))
	if err != nil {
		return fmt.Errorf("reading the API token: %w", err)
	}
	r.api = &api.Client{Server: "http://" + r.addresses.API, Token: strings.TrimSpace(string(token)), HTTP: r.http}
	return nil
}

func (r *rig) dataDir() string { return filepath.Join(r.dir, "data") }

// stopBackend ends the backend alone; its data stay.
func (r *rig) stopBackend() error {
	err := r.backend.stop()
	r.backend = nil
	return err
}

// stopClient ends the client alone.
func (r *rig) stopClient() error {
	err := r.client.stop()
	r.client = nil
	return err
}

// stored is how many objects of the cluster the API shows.
func (r *rig) stored(ctx context.Context) (int, error) {
	clusters, err := r.api.Clusters(ctx)
	if err != nil {
		return 0, err
	}
	for _, c := range clusters {
		if c.Cluster == clusterName {
			return int(c.Objects), nil
		}
	}
	return 0, nil
}

// awaitStored waits until n objects are stored, and shows how many are. It notes
// how much memory both processes had meanwhile. No progress for stallTimeout is
// an error.
func (r *rig) awaitStored(ctx context.Context, n int, bar *Progress) error {
	last, since := 0, time.Now()
	bar.Start("storing", n)
	defer bar.Stop()
	return await(ctx, r.client, 24*time.Hour, pollInterval, "the objects to be stored", func() (bool, error) {
		if err := r.sample(); err != nil {
			return false, err
		}
		stored, err := r.stored(ctx)
		if err != nil {
			return false, err
		}
		bar.Set(stored)
		if stored > n {
			return false, fmt.Errorf("%d objects are stored, but there should be only %d: does somebody else change the cluster?", stored, n)
		}
		if stored != last {
			last, since = stored, time.Now()
		}
		if time.Since(since) > stallTimeout {
			return false, fmt.Errorf("nothing was stored for %s: %d of %d objects are; the end of the logs:\nclient: %s\nbackend: %s",
				stallTimeout, stored, n, r.client.tail(), r.backend.tail())
		}
		return stored == n, nil
	})
}

const stallTimeout = time.Minute

// sample notes the memory of both processes.
func (r *rig) sample() error {
	backend, err := r.backend.usage()
	if err != nil {
		return err
	}
	client, err := r.client.usage()
	if err != nil {
		return err
	}
	r.backendPeakAnon, r.clientPeak = max(r.backendPeakAnon, backend.Anon), max(r.clientPeak, client.Anon)
	return nil
}

// awaitQuiet waits until the client watches all kinds that it is to, has nothing
// more to tell, and no frame was sent for a second.
func (r *rig) awaitQuiet(ctx context.Context) (metrics, error) {
	var m metrics
	frames, since := -1.0, time.Now()
	err := await(ctx, r.client, 10*time.Minute, 5*pollInterval, "the client to have told everything", func() (bool, error) {
		var err error
		if m, err = scrape(ctx, r.http, r.clientHealth); err != nil {
			return false, nil //nolint:nilerr // its port is not open yet; await sees it end
		}
		now := m.sum("synchronizer_link_frames_total")
		busy := m.sum("synchronizer_agent_dirty") > 0 || m.sum("synchronizer_agent_kind_state", "state", "watching") < float64(r.watched)
		if now != frames || busy {
			frames, since = now, time.Now()
		}
		return time.Since(since) >= time.Second, nil
	})
	return m, err
}

// await calls done every interval until it is true; it ends with an error of
// done, with ctx, with the process and after limit.
func await(ctx context.Context, p *process, limit, interval time.Duration, what string, done func() (bool, error)) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		ok, err := done()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-p.done:
			return p.ended()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return fmt.Errorf("waited %s in vain for %s; the end of the log of the %s:\n%s", limit, what, p.name, p.tail())
		}
	}
}

// nextPhase begins the next CPU profile of both processes, and gives the old one
// time to be written.
func (r *rig) nextPhase(ctx context.Context) error {
	for profile, p := range map[string]*process{r.clientProfile: r.client, r.backendProfile: r.backend} {
		if profile == "" {
			continue
		}
		if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			return fmt.Errorf("beginning the next CPU profile of the %s: %w", p.name, err)
		}
	}
	if r.backendProfile == "" {
		return nil
	}
	return wait(ctx, profileSwitch)
}

// profileSwitch is above the time that the profiler takes to end.
const profileSwitch = 500 * time.Millisecond

// wait is a pause that ends with ctx.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
