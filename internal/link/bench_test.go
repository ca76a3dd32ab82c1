// SPDX-License-Identifier: Apache-2.0

package link

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/link/linktest"
)

// BenchmarkUp measures messages from client to server over loopback: both ends
// share the machine's CPUs.
func BenchmarkUp(b *testing.B) {
	for _, bench := range []struct {
		name    string
		message synchronizer.Message
		perSend int
	}{
		{"small/1", linktest.Checksum("web"), 1},
		{"small/32", linktest.Checksum("web"), 32},
		{"2.7KB/1", linktest.Put("web", 2700), 1},
		{"2.7KB/32", linktest.Put("web", 2700), 32},
		{"1.4MiB/1", linktest.Put("web", 14<<20/10), 1},
	} {
		b.Run(bench.name, func(b *testing.B) {
			client, server := pair(b, linktest.Setup{}, (*httptest.Server).Start)
			messages := make([]synchronizer.Message, bench.perSend)
			for i := range messages {
				messages[i] = bench.message
			}
			rounds := (b.N + bench.perSend - 1) / bench.perSend
			b.SetBytes(int64(len(bench.message.Body)))
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				for range rounds {
					if client.Send(b.Context(), messages...) != nil {
						return
					}
				}
			}()
			for range rounds * bench.perSend {
				_, err := server.Receive(b.Context())
				require.NoError(b, err)
			}
			b.ReportMetric(float64(rounds*bench.perSend)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
