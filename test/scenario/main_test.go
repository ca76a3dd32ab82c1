// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"synchronizer/test/kubetest"
)

var (
	// shared serves the tests that leave it alone. startErr goes to kubetest.Require.
	shared   *kubetest.Cluster
	startErr error
	// program is the built command line.
	program string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "scenario")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Without a cluster every test is skipped, and the program is not needed.
	if shared, startErr = kubetest.StartMain(dir); startErr == nil {
		startErr = build(dir)
	}
	status := m.Run()
	if shared != nil {
		err = shared.Stop()
	}
	if err == nil {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	return status
}

func build(dir string) error {
	program = filepath.Join(dir, "synchronizer")
	out, err := exec.Command("go", "build", "-o", program, "synchronizer/cmd/synchronizer").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return nil
}
