// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"synchronizer/internal/kube/recorded"
)

// source is the API server of a benchmark with its objects, all Deployments.
type source interface {
	// kubeconfig is the path of a kubeconfig for it.
	kubeconfig() string
	// namespaces are those with the objects; empty means all.
	namespaces() []string
	data() Data
	// change changes n objects at a rate per second, each another one as long as
	// there are enough, and returns when all were changed.
	change(ctx context.Context, n int, rate float64) error
	// renew makes later changes differ from those that were made, for the next run.
	renew() error
	// changed tells when the object got the version.
	changed(v version) (time.Time, bool)
	// newest is the resourceVersion of the last change, if one object alone is changed.
	newest() string
	close() error
}

// version is one state of one object.
type version struct{ namespace, name, resourceVersion string }

// Data describes the objects of a benchmark.
type Data struct {
	// Source says where they come from, in words.
	Source    string  `json:"source"`
	Objects   int     `json:"objects"`
	MeanBytes float64 `json:"meanBytes"` // of the JSON of one object
	// ZstdRatio is bytes before to bytes after plain zstd level 3 over all of them
	// in one stream: what compression owes to the data.
	ZstdRatio float64 `json:"zstdRatio"`

	sample [][]byte // some of the bodies
}

// sampleSize is the greatest number of bodies in a sample.
const sampleSize = 1000

// describe measures the bodies.
func describe(source string, bodies [][]byte) (Data, error) {
	d := Data{Source: source, Objects: len(bodies)}
	if len(bodies) == 0 {
		return d, nil
	}
	var packed counter
	w, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(3)))
	if err != nil {
		return d, fmt.Errorf("compressing the data: %w", err)
	}
	total, every := 0, (len(bodies)+sampleSize-1)/sampleSize
	for i, body := range bodies {
		if i%every == 0 {
			d.sample = append(d.sample, body)
		}
		total += len(body)
		if _, err := w.Write(body); err != nil {
			return d, fmt.Errorf("compressing the data: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return d, fmt.Errorf("compressing the data: %w", err)
	}
	d.MeanBytes = float64(total) / float64(len(bodies))
	d.ZstdRatio = float64(total) / float64(packed)
	return d, nil
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// SourceOptions choose the API server.
type SourceOptions struct {
	Objects int
	Seed    uint64
	// Kubeconfig names a real API server.
	Kubeconfig string
	// Recording is a folder that Record has written; the stub replays it.
	Recording string
}

// open makes the source. All of its objects exist when it returns. A stub also
// serves more.
func (o SourceOptions) open(ctx context.Context, bar *Progress, more ...*recorded.Set) (source, error) {
	if o.Kubeconfig != "" {
		return openReal(ctx, o, bar)
	}
	return openStub(o, more...)
}

// stub is an API server that answers from memory.
type stub struct {
	options SourceOptions
	server  *recorded.Server
	file    string
	about   Data
	more    []*recorded.Set // kinds that do not change
}

func openStub(o SourceOptions, more ...*recorded.Set) (*stub, error) {
	set, words, err := o.set()
	if err != nil {
		return nil, err
	}
	about, err := describe(words, set.Items)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "synchronizer-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	s := &stub{options: o, about: about, more: more, file: filepath.Join(dir, "kubeconfig")}
	if err := s.serve(set); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// set loads or generates the objects, and says which in words.
func (o SourceOptions) set() (set *recorded.Set, words string, err error) {
	if o.Recording == "" {
		return recorded.GenerateSet(recorded.Deployments, o.Seed, o.Objects),
			fmt.Sprintf("stub API server; objects generated in an API server's form, seed %d", o.Seed), nil
	}
	if set, err = recorded.Load(o.Recording); err != nil {
		return nil, "", fmt.Errorf("%w (`synchronizer bench record` makes a recording)", err)
	}
	if set.Kind != recorded.Deployments {
		return nil, "", fmt.Errorf("the recording %s holds %v; the benchmarks need Deployments", o.Recording, set.Kind)
	}
	return set, "stub API server; replays what a real one has answered", nil
}

// serve starts the server and writes its kubeconfig.
func (s *stub) serve(set *recorded.Set) (err error) {
	if s.server, err = recorded.NewServer(append([]*recorded.Set{set}, s.more...)...); err != nil {
		return err
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: stub, cluster: {server: %q}}]
users: [{name: stub, user: {}}]
contexts: [{name: stub, context: {cluster: stub, user: stub}}]
current-context: stub
`, s.server.URL)
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.server.Close()
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	return nil
}

// renew starts over: the stub counts its changes from zero each time, and a change
// to the same text is none.
func (s *stub) renew() error {
	set, _, err := s.options.set()
	if err != nil {
		return err
	}
	s.server.Close()
	return s.serve(set)
}

func (s *stub) kubeconfig() string   { return s.file }
func (s *stub) namespaces() []string { return []string{} }
func (s *stub) data() Data           { return s.about }

func (s *stub) change(ctx context.Context, n int, rate float64) error {
	return s.server.Play(ctx, recorded.Deployments, n, rate)
}

func (s *stub) changed(v version) (time.Time, bool) {
	return s.server.Sent(recorded.Deployments, v.namespace, v.name, v.resourceVersion)
}

func (s *stub) newest() string { return s.server.ResourceVersion(recorded.Deployments) }

func (s *stub) close() error {
	s.server.Close()
	return os.RemoveAll(filepath.Dir(s.file))
}
