// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/policy"
	"synchronizer/test/kubetest"
)

// BenchmarkPut writes into the real API server, four at a time: objects that are
// new, that change and that are as desired.
func BenchmarkPut(b *testing.B) {
	kubetest.Require(b, startErr)
	require.NoError(b, server.CreateNamespace(b.Context(), "bench"))
	a := New(Options{Cluster: connect(b, server.RESTConfig()), Policy: policy.New(policy.LinkV1), Strategy: everything})
	doc := func(object, state int64) (name string, body []byte) {
		name = fmt.Sprintf("d-%d", object)
		return name, []byte(strings.Replace(deployment(name), `"replicas":1`, fmt.Sprintf(`"replicas":%d`, state), 1))
	}
	var object, state atomic.Int64
	for _, c := range []struct {
		name string
		next func() (string, []byte)
	}{
		{"create", func() (string, []byte) { return doc(object.Add(1), 0) }},
		{"update", func() (string, []byte) { n := state.Add(1); return doc(-n%50, n) }},
		{"same", func() (string, []byte) { return doc(-(state.Add(1) % 4), 1) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetParallelism(2)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					name, body := c.next()
					result, err := a.Put(b.Context(), deployments, "bench", name, body)
					if err != nil || result.Outcome == Refused {
						b.Fatalf("%v %+v", err, result)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
		})
	}
}

// BenchmarkLay lays a desired object over a current one, without an API server.
func BenchmarkLay(b *testing.B) {
	a := New(Options{Policy: policy.New(policy.LinkV1)})
	at := target{deployments, "n", "d"}
	current := []byte(deployment("d"))
	body := []byte(strings.ReplaceAll(strings.Replace(deployment("d"), `"replicas":1`, `"replicas":2`, 1), `"one"`, `"XXXXXX"`))
	b.ReportAllocs()
	for b.Loop() {
		c, err := read(current)
		require.NoError(b, err)
		_, shown, err := a.show(at, current)
		require.NoError(b, err)
		d, err := read(body)
		require.NoError(b, err)
		_, changed := a.merger(at).object(c, shown, d)
		require.True(b, changed)
	}
}
