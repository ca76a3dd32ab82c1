// SPDX-License-Identifier: Apache-2.0

package storageapi_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"synchronizer/test/kubetest"
)

// shared is the real API server. startErr goes to Require.
var (
	shared   *kubetest.Cluster
	startErr error
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "storageapi")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shared, startErr = kubetest.StartMain(dir)
	status := m.Run()
	if startErr == nil {
		err = shared.Stop()
	}
	if err == nil {
		err = goleak.Find()
	}
	if err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	return status
}
