// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// discard is an outlet that is never busy.
type discard struct{}

func (discard) Connected() bool                                    { return true }
func (discard) Report(context.Context, synchronizer.Message) error { return nil }

// BenchmarkAlerts posts alerts of 2 KiB over TCP by 200 callers with a token
// each, decisions cached as in real life. One op is one accepted alert; a caller
// that gets 429 tries again at once, which real ones do not.
func BenchmarkAlerts(b *testing.B) {
	const callers, size = 200, 2 << 10
	e, err := New(Options{Resources: stock(), Outlet: discard{}, APIServer: &fakeAPI{}, Auth: Auth{Namespace: "kubescape"}})
	require.NoError(b, err)
	l, err := Listen(b.Context(), "127.0.0.1:0")
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, l) }()
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	client := &http.Client{Transport: transport}
	body := report("RuntimeAlerts", strings.Repeat("x", size-len(report("RuntimeAlerts", "")))[:64])
	body = body[:len(body)-1] + `,"message":"` + strings.Repeat("x", size-len(body)-13) + `"}`
	require.Len(b, body, size)
	url := "http://" + l.Addr().String() + alertPath
	post := func(token string) int {
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(r)
		if err != nil {
			b.Error(err)
			return http.StatusAccepted
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	var accepted, refused atomic.Int64
	b.SetBytes(size)
	b.ReportAllocs()
	b.ResetTimer()
	var group sync.WaitGroup
	for i := range callers {
		token := fmt.Sprintf("token-%d-%s", i, strings.Repeat("x", 1200)) // as long as real ones
		group.Go(func() {
			for accepted.Add(1) <= int64(b.N) {
				for post(token) != http.StatusAccepted {
					refused.Add(1)
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "alerts/s")
	b.ReportMetric(float64(refused.Load())/float64(b.N), "429/alert")
	cancel()
	require.NoError(b, <-done)
	transport.CloseIdleConnections()
}
