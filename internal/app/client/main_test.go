// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"synchronizer/test/kubetest"
)

// The tests that need a real API server share one, which the first of them starts.
var (
	folder  string
	started *kubetest.Cluster
	start   = sync.OnceValue(func() (err error) {
		started, err = kubetest.StartMain(folder)
		return err
	})
)

func shared(t *testing.T) *kubetest.Cluster {
	t.Helper()
	kubetest.Require(t, start())
	return started
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if folder, err = os.MkdirTemp("", "client"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	status := m.Run()
	if started != nil {
		err = started.Stop()
	}
	if err == nil {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(status, 1)
	}
	return status
}
