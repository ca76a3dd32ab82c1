// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// said is a log that can be read while it is written.
type said struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// take gives what was said since the last take.
func (s *said) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.b.String()
	s.b.Reset()
	return text
}

// Case B076: giving up too early, too late or for the wrong reason. The texts are
// those of link.Dialer (its TestDialErrors has the answers that lead to them).
func TestB076ConnectLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log said
		r := newRig(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		dialed := func() int {
			r.backend.mu.Lock()
			defer r.backend.mu.Unlock()
			return r.backend.dials
		}
		r.start()
		r.settle(2 * time.Hour)
		require.Equal(t, 1, dialed())
		for _, outage := range []struct {
			err   error
			lasts time.Duration
			says  string
		}{
			{errors.New("connecting to wss://h: connection refused"), 25 * time.Minute, "connection refused"},
			{fmt.Errorf("%w: server wss://h refused the credentials (HTTP 401): check account, access key and cluster name", synchronizer.ErrUnauthorized), time.Hour, "refused the credentials"},
			{errors.New("server wss://h did not accept the upgrade to a websocket (HTTP 502)"), time.Hour, "HTTP 502"},
			{&synchronizer.RetryAfterError{After: 5 * time.Second, Err: errors.New("server wss://h does not accept connections now (HTTP 503)")}, time.Hour, "HTTP 503"},
			{fmt.Errorf("connecting to wss://h: %w", &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}), time.Hour, "no such host"},
		} {
			log.take()
			r.backend.setRefuse(outage.err)
			before := dialed()
			r.backend.cut()
			for passed := time.Duration(0); passed < outage.lasts; passed += time.Minute {
				dials := dialed()
				r.settle(time.Minute)
				if passed > 0 {
					require.Greater(t, dialed(), dials, "%v: the delay is capped at a minute", outage.err)
				}
			}
			require.Less(t, dialed()-before, 4*int(outage.lasts/time.Minute)+8, "%v: it does not hammer", outage.err)
			require.Contains(t, log.take(), outage.says)
			require.False(t, r.agent.Status().Connected)

			r.cluster.Put(configmaps, doc(configmaps, "default", "c", outage.says))
			r.backend.setRefuse(nil)
			r.settle(time.Minute + time.Second)
			require.True(t, r.agent.Status().Connected, "%v", outage.err)
			require.NoError(t, r.agree(configmaps))
			r.settle(2 * time.Hour)
		}
		r.stop()
	})
}
