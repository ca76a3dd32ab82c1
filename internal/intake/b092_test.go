// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/dedup"
)

// setWall gives what time.Now would if the wall clock had been set by so many
// seconds: the monotonic reading stays. There is no other way to have both without
// setting the clock of the machine.
func setWall(now time.Time, seconds int64) time.Time {
	const shift = 30 // the nanoseconds are below the seconds
	wall := (*uint64)(unsafe.Pointer(&now))
	*wall += uint64(seconds) << shift
	return now
}

func TestB092SetWall(t *testing.T) {
	now := time.Now()
	for _, seconds := range []int64{3600, -3600} {
		set := setWall(now, seconds)
		require.Equal(t, now.Unix()+seconds, set.Unix())
		require.Equal(t, now.Nanosecond(), set.Nanosecond())
		require.Zero(t, set.Sub(now), "no time has passed")
	}
}

// TestB092PostedAlerts are taken whatever time they say, and as they are.
func TestB092PostedAlerts(t *testing.T) {
	w := open(t, noAuth)
	now := time.Now().UTC()
	var want []string
	for name, stamp := range map[string]string{
		"past": fmt.Sprintf(`,"timestamp":%q`, now.Add(-time.Hour).Format(time.RFC3339Nano)), "future": fmt.Sprintf(`,"timestamp":%q`, now.Add(time.Hour).Format(time.RFC3339Nano)),
		"zero": `,"timestamp":"0001-01-01T00:00:00Z"`, "number": `,"timestamp":0`, "missing": "",
	} {
		body := `{"apiVersion":"kubescape.io/v1","kind":"RuntimeAlerts","metadata":{"name":"` + name + `","namespace":"kubescape","creationTimestamp":null` + stamp + `},"spec":{"alerts":[{"x":1` + stamp + `}]}` + stamp + `}`
		response, err := w.client.Post("http://"+w.address+alertPath, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusAccepted, response.StatusCode, name)
		want = append(want, body)
	}
	var got []string
	for _, m := range w.outlet.messages() {
		got = append(got, string(m.Body))
	}
	require.ElementsMatch(t, want, got)
}

// TestB092Deduplication remembers for the time to live since the application,
// however the wall clock is set meanwhile, and whatever time a message says.
func TestB092Deduplication(t *testing.T) {
	const ttl = 10 * time.Minute
	messages := []string{`{"timestamp":"1999-12-31T23:00:00Z"}`, `{"timestamp":"2000-01-01T01:00:00Z"}`, `{"timestamp":"0001-01-01T00:00:00Z"}`, `{}`}
	for _, steps := range [][]int64{{0}, {3600}, {-3600}, {3600, -3600}, {-3600, 3600, 0}} {
		began, elapsed, offset := time.Now(), time.Duration(0), int64(0)
		m := dedup.New(dedup.Options{TTL: ttl, Now: func() time.Time { return setWall(began.Add(elapsed), offset) }})
		for _, message := range messages {
			m.Applied(dedup.Of([]byte(message)))
		}
		for _, offset = range steps {
			elapsed += ttl/time.Duration(len(steps)) - 1
			for _, message := range messages {
				require.True(t, m.Seen(dedup.Of([]byte(message))), "%v: not kept shorter", steps)
			}
		}
		elapsed = ttl
		for _, message := range messages {
			require.False(t, m.Seen(dedup.Of([]byte(message))), "%v: not kept longer", steps)
		}
	}
	// What is not told otherwise is the clock that this is about.
	synctest.Test(t, func(t *testing.T) {
		m := dedup.New(dedup.Options{TTL: ttl})
		m.Applied(dedup.Of(nil))
		time.Sleep(ttl - 1) // in a bubble
		require.True(t, m.Seen(dedup.Of(nil)))
		time.Sleep(time.Nanosecond) // in a bubble
		require.False(t, m.Seen(dedup.Of(nil)))
	})
}
