// SPDX-License-Identifier: Apache-2.0

package brokers

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// ends is what Main has to end.
var ends struct {
	sync.Mutex
	all []func()
}

func atEnd(end func()) {
	ends.Lock()
	defer ends.Unlock()
	ends.all = append(ends.all, end)
}

// Main runs the tests of a package, ends the shared brokers, and fails if a
// goroutine is left behind. For TestMain; the result is the exit code.
func Main(m *testing.M) int {
	status := Tests{m}.Run()
	if err := goleak.Find(Lingering()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	return status
}

// Lingering ignores a goroutine of Pulsar's library: it lives for an hour for each
// record that was read in chunks, and then ends.
func Lingering() goleak.Option {
	return goleak.IgnoreTopFunction("github.com/apache/pulsar-client-go/pulsar.(*chunkedMsgCtxMap).discardChunkIfExpire")
}

// Tests are the tests of a package whose TestMain has more to do than Main: Run
// runs them and ends the shared brokers.
type Tests struct{ M *testing.M }

// Run returns the exit code.
func (t Tests) Run() int {
	defer func() {
		ends.Lock()
		defer ends.Unlock()
		for _, end := range ends.all {
			end()
		}
		ends.all = nil
	}()
	return t.M.Run()
}

// shared is a broker that the tests of one binary have in common.
type shared[T any] struct {
	mu    sync.Mutex
	tried bool
	value T
	err   error
}

// get starts the broker for the first test that asks. dir is a folder that lives
// until Main ends; stop is called there.
func (s *shared[T]) get(t testing.TB, start func(dir string) (value T, stop func(), err error)) T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried {
		s.tried = true
		dir, err := os.MkdirTemp("", "broker")
		if err != nil {
			s.err = err
		} else {
			var stop func()
			s.value, stop, s.err = start(dir)
			atEnd(func() {
				if stop != nil {
					stop()
				}
				_ = os.RemoveAll(dir)
			})
		}
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.value
}
