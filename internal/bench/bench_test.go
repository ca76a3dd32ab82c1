// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"synchronizer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQuantile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		of   []time.Duration
		q    float64
		want time.Duration
	}{
		{nil, .5, 0},
		{[]time.Duration{7}, .5, 7},
		{[]time.Duration{7}, .99, 7},
		{[]time.Duration{1, 2}, .5, 1},
		{[]time.Duration{1, 2, 3}, .5, 2},
		{hundred, .5, 50},
		{hundred, .99, 99},
		{hundred, 1, 100},
		{hundred, 0, 1},
	} {
		require.Equal(t, c.want, quantile(c.of, c.q), "%v of %v", c.q, c.of)
	}
}

func TestQuantileSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 60).Draw(t, "values")
		sorted := make([]time.Duration, 0, len(values))
		for _, v := range values {
			sorted = append(sorted, time.Duration(v))
		}
		slices.Sort(sorted)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		at := quantile(sorted, q)
		notAbove := 0
		for _, v := range sorted {
			if v <= at {
				notAbove++
			}
		}
		require.GreaterOrEqual(t, float64(notAbove), q*float64(len(sorted)))
	})
}

func TestMedian(t *testing.T) {
	require.Zero(t, median(nil))
	require.Equal(t, 2.0, median([]float64{9, 1, 2}))
	require.Equal(t, 2.5, median([]float64{9, 1, 2, 3}))
}

func TestRounded(t *testing.T) {
	for in, want := range map[float64]float64{
		0: 0, 1234567: 1234567, 999.96: 1000, 12.3456: 12.35, 0.00012345: 0.0001235, -3.14159: -3.142, 1000.4: 1000,
	} {
		require.Equal(t, want, rounded(in), in)
	}
}

func TestNumber(t *testing.T) {
	for in, want := range map[float64]string{0: "0", 12: "12", 999: "999", 1000: "1,000", 1234567.5: "1,234,567.5", -1000: "-1,000", -100: "-100"} {
		require.Equal(t, want, number(in))
	}
}

func TestPackageOf(t *testing.T) {
	for symbol, want := range map[string]string{
		"runtime.mallocgc":                                         "runtime",
		"synchronizer/internal/kube.(*Cluster).List":               "synchronizer/internal/kube",
		"synchronizer/internal/agent.run.func1":                    "synchronizer/internal/agent",
		"github.com/nats-io/nats-server/v2/server.(*client).flush": "github.com/nats-io/nats-server/v2/server",
		"slices.SortFunc[go.shape.[]synchronizer/x.T]":             "slices",
		"a/b.(*T[go.shape.struct { c/d.x int }]).M":                "a/b",
		"memmove": "memmove",
	} {
		require.Equal(t, want, packageOf(symbol), symbol)
	}
}

// fake makes a profile of stacks, each written from the innermost function to the
// outermost, "a<b" meaning that a was inlined into b.
func fake(stacks map[string]time.Duration) *profile.Profile {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
	for stack, cpu := range stacks {
		s := &profile.Sample{Value: []int64{1, int64(cpu)}}
		for frame := range strings.FieldsSeq(stack) {
			l := &profile.Location{}
			for name := range strings.SplitSeq(frame, "<") {
				l.Line = append(l.Line, profile.Line{Function: &profile.Function{Name: name}})
			}
			s.Location = append(s.Location, l)
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

func TestStages(t *testing.T) {
	got := Stages(fake(map[string]time.Duration{
		"runtime.mallocgc synchronizer/internal/rawjson.Scan synchronizer/internal/checksum.(*v1Hasher).object synchronizer/internal/checksum.V1 synchronizer/internal/agent.run": 9,
		"synchronizer/internal/agent.step synchronizer/internal/kube.(*Cluster).List":                                                                                             1,
		"syscall.write net.Write github.com/coder/websocket.(*Conn).Write synchronizer/internal/link.Send":                                                                        8,
		"synchronizer/internal/wire.Append<synchronizer/internal/agent.send runtime.goexit":                                                                                       2,
		"modernc.org/sqlite/lib.Step database/sql.Exec synchronizer/internal/store/sqlite.(*tx).Write":                                                                            7,
		"github.com/nats-io/nats-server/v2/server.(*stream).store":                                                                                                                6,
		"runtime.scanobject runtime.gcBgMarkWorker":                                                                                                                               5,
		"runtime.futex runtime.findRunnable runtime.schedule runtime.mcall":                                                                                                       4,
		"syscall.read net/http.(*conn).serve":                                                                                                                                     3,
		"strange.thing":                                                                                                                                                           0,
	}))
	require.Equal(t, []StageTime{
		{"link", 10},
		{"checksum v1", 9},
		{"store", 7},
		{"queue", 6},
		{"garbage collection", 5},
		{"scheduler", 4},
		{"http", 3},
		{"agent", 1},
		{"other", 0},
	}, got)
}

func TestProfiledWritesOneFileForEachPhase(t *testing.T) {
	base := filepath.Join(t.TempDir(), "p")
	err := Profiled(base, func() error {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1))
		require.Eventually(t, func() bool {
			_, err := os.Stat(profileFile(base, 1))
			return err == nil
		}, 10*time.Second, 5*time.Millisecond)
		return os.ErrClosed
	})
	require.ErrorIs(t, err, os.ErrClosed)
	for phase := range 2 {
		_, err := readStages(profileFile(base, phase))
		require.NoError(t, err)
	}
	require.ErrorContains(t, Profiled(filepath.Join(base, "nowhere"), func() error { return nil }), "CPU profile")
}

func TestMetrics(t *testing.T) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(`# TYPE f counter
f{direction="sent",event="A"} 3
f{direction="sent",event="B"} 4
f{direction="received",event="A"} 5
# TYPE g gauge
g 7
`))
	require.NoError(t, err)
	m := metrics(families)
	require.Equal(t, 12.0, m.sum("f"))
	require.Equal(t, 8.0, m.sum("f", "event", "A"))
	require.Equal(t, 3.0, m.sum("f", "event", "A", "direction", "sent"))
	require.Equal(t, 7.0, m.sum("g"))
	require.Zero(t, m.sum("nothing"))
	require.Equal(t, map[string]float64{"A": 3, "B": 4}, m.byLabel("f", "event", "direction", "sent"))
}

func TestMeasure(t *testing.T) {
	start := time.Now()
	a, b, other := version{"n", "a", "1"}, version{"n", "b", "2"}, version{"n", "c", "3"}
	changed := func(v version) (time.Time, bool) { return start, v != other }
	rows := seen{a: start.Add(5 * time.Millisecond), b: start.Add(-time.Millisecond), other: start}
	require.Equal(t, []time.Duration{0, 5 * time.Millisecond}, measure(rows, changed))
}

func TestUsageOfThisProcess(t *testing.T) {
	u, err := usageOf(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, u.RSS)
	require.Positive(t, u.Anon)
	require.GreaterOrEqual(t, u.PeakRSS, u.RSS)
	_, err = usageOf(-1)
	require.Error(t, err)
}

func TestProcessThatEndsIsExplained(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := startProcess(t.Context(), "thing", log, "sh", "-c", "echo because; exit 3")
	require.NoError(t, err)
	err = await(t.Context(), p, time.Minute, time.Millisecond, "nothing", func() (bool, error) { return false, nil })
	require.ErrorContains(t, err, "thing has ended (exit status 3)")
	require.ErrorContains(t, err, "because")
	require.NoError(t, p.stop())

	p, err = startProcess(t.Context(), "thing", log, "sleep", "60")
	require.NoError(t, err)
	err = await(t.Context(), p, 10*time.Millisecond, time.Millisecond, "the moon", func() (bool, error) { return false, nil })
	require.ErrorContains(t, err, "in vain for the moon")
	require.NoError(t, p.stop())
	require.Error(t, p.ended())
	_, err = startProcess(t.Context(), "thing", log, "/no/such/program")
	require.ErrorContains(t, err, "starting the thing")
}

func TestForeignConfigurationStaysOut(t *testing.T) {
	t.Setenv("KUBECONFIG", "/somewhere")
	t.Setenv("BENCH_KEEPS", "this")
	env := environment()
	require.Contains(t, env, "BENCH_KEEPS=this")
	require.NotContains(t, env, "KUBECONFIG=/somewhere")
}

func sample() *Report {
	r := &Report{
		Benchmark: "first sync, generated", Command: "synchronizer bench first-sync", At: time.Unix(1_800_000_000, 0), Runs: 3,
		Machine: Machine{CPU: "Some CPU", Cores: 2, MemoryBytes: 8 << 30, Kernel: "6.1", Go: "go1.26", System: "linux/amd64", Commit: "abc", Load: 0.25},
		Data:    &Data{Source: "stub", Objects: 20000, MeanBytes: 2700, ZstdRatio: 9.1},
		Notes:   []string{"A note."},
	}
	for _, v := range []float64{5000, 2000, 4000} {
		r.add("first sync", "objects per second", "objects/s", v, atLeast(3000))
		r.add("client", "RSS", "MiB", v/100, below(40))
		r.add("first sync", "time", "s", v/1000, nil)
	}
	return r
}

func TestReportTakesTheMedianAndKeepsGroupsTogether(t *testing.T) {
	r := sample()
	require.Len(t, r.Figures, 3)
	require.Equal(t, "first sync", r.Figures[1].Group, "a later figure joins its group")
	f, ok := r.figure("first sync", "objects per second")
	require.True(t, ok)
	require.Equal(t, 4000.0, f.Value)
	require.True(t, *f.Met)
	f, _ = r.figure("client", "RSS")
	require.False(t, *f.Met, "40 is not below 40")
}

func TestFormats(t *testing.T) {
	var table, markdown, text bytes.Buffer
	require.NoError(t, sample().Write(&table, "table"))
	require.Contains(t, table.String(), "4,000 objects/s   ≥ 3,000: met   2,000 – 5,000")
	require.NoError(t, sample().Write(&markdown, "markdown"))
	require.Contains(t, markdown.String(), "| objects per second | 4,000 objects/s | ≥ 3,000: met | 2,000 – 5,000 |")
	require.Contains(t, markdown.String(), "Some CPU, 2 cores, 8 GiB, kernel 6.1, go1.26 linux/amd64, commit abc, load 0.25 before")
	require.NoError(t, sample().Write(&text, "json"))
	var back Report
	require.NoError(t, json.Unmarshal(text.Bytes(), &back))
	require.Equal(t, sample().Figures, back.Figures)
}

func TestDocumentReplacesItsSectionOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	first, second := sample(), sample()
	second.Benchmark = "up"
	require.NoError(t, first.WriteDocument(path))
	require.NoError(t, second.WriteDocument(path))
	once, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, first.WriteDocument(path))
	twice, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(once), string(twice))
	require.True(t, strings.HasPrefix(string(once), "# Benchmarks\n"))
	require.Equal(t, 2, strings.Count(string(once), "<!-- end -->"))

	first.Notes = []string{"Another note."}
	require.NoError(t, first.WriteDocument(path))
	changed, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(string(once), "A note.", "Another note.", 1), string(changed))
	require.Error(t, first.WriteDocument(filepath.Join(path, "below")))
}

func TestProgress(t *testing.T) {
	var none *Progress
	none.Start("x", 1)
	none.Set(1)
	none.Add(1)
	none.Stop()
	var out bytes.Buffer
	p := NewProgress(&out)
	p.Start("storing", 10)
	p.lastDrawn = time.Time{}
	p.Set(5)
	p.Stop()
	require.Contains(t, out.String(), "storing      ["+strings.Repeat("=", 15)+strings.Repeat(" ", 15)+"] 5/10")
	require.True(t, strings.HasSuffix(out.String(), "\r\x1b[K"))
}

func TestDescribe(t *testing.T) {
	d, err := describe("here", [][]byte{bytes.Repeat([]byte("ab"), 500), bytes.Repeat([]byte("ab"), 1500)})
	require.NoError(t, err)
	require.Equal(t, 2000.0, d.MeanBytes)
	require.Greater(t, d.ZstdRatio, 10.0)
	_, err = openStub(SourceOptions{Recording: t.TempDir()})
	require.ErrorContains(t, err, "bench record")
}

func TestSentEvents(t *testing.T) {
	read := func(text string) metrics {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader("# TYPE synchronizer_link_frames_total counter\n" + text))
		require.NoError(t, err)
		return families
	}
	before := read(`synchronizer_link_frames_total{direction="sent",event="PutObject"} 1
synchronizer_link_frames_total{direction="sent",event="NewChecksum"} 1
`)
	after := read(`synchronizer_link_frames_total{direction="sent",event="PutObject"} 4
synchronizer_link_frames_total{direction="sent",event="NewChecksum"} 1
synchronizer_link_frames_total{direction="sent",event="PatchObject"} 2
synchronizer_link_frames_total{direction="sent",event="Ping"} 7
synchronizer_link_frames_total{direction="received",event="GetObject"} 9
`)
	require.Equal(t, map[string]float64{"PutObject": 3, "PatchObject": 2}, sentEvents(before, after))
}

func TestCheckKinds(t *testing.T) {
	all := len(builtinKinds)
	for _, c := range []struct {
		kinds, absent int
		ok            bool
	}{
		{40, 15, true},
		{1, 0, true},
		{all, 0, true},
		{all + 1, 1, true},
		{all + 1, 0, false},
		{5, 5, false},
		{5, -1, false},
		{-1, 0, false},
	} {
		err := (&IdleOptions{Kinds: c.kinds, Absent: c.absent}).CheckKinds()
		require.Equal(t, c.ok, err == nil, "%+v: %v", c, err)
	}
	kinds := append(servedKinds(all), absentKinds(15)...)
	slices.SortFunc(kinds, func(a, b synchronizer.Kind) int { return strings.Compare(a.String(), b.String()) })
	require.Len(t, slices.Compact(kinds), all+15, "each kind occurs once")
}

func TestStrategy(t *testing.T) {
	for objects, want := range map[int]string{10000: "patch", 99999: "patch", 100000: "copy"} {
		o := FirstSyncOptions{SourceOptions: SourceOptions{Objects: objects}}
		require.Equal(t, want, o.strategy())
	}
	o := FirstSyncOptions{SourceOptions: SourceOptions{Objects: 200000}, Strategy: "patch"}
	require.Equal(t, "patch", o.strategy())
}

func TestChecksumTime(t *testing.T) {
	s, err := openStub(SourceOptions{Objects: 2500, Seed: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	require.Len(t, s.data().sample, 834, "every third")
	each, err := checksumTime(s.data().sample)
	require.NoError(t, err)
	require.Positive(t, each)
	none, err := checksumTime(nil)
	require.NoError(t, err)
	require.Zero(t, none)
	_, err = checksumTime([][]byte{[]byte("{")})
	require.ErrorContains(t, err, "checksum v1")
}
