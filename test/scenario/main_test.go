// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"synchronizer/test/brokers"
	"synchronizer/test/kubetest"
	"synchronizer/test/pgtest"
)

var (
	// shared serves the tests that leave it alone. startErr goes to kubetest.Require.
	shared   *kubetest.Cluster
	startErr error
	// program is the built command line.
	program string
)

func TestMain(m *testing.M) {
	os.Exit(kubetest.Main(pgtest.Main(brokers.Tests{M: m}), func(dir string, c *kubetest.Cluster, err error) {
		// Without a cluster every test is skipped, and the program is not needed.
		if shared, startErr = c, err; err == nil {
			startErr = build(dir)
		}
	}, brokers.Lingering()))
}

func build(dir string) error {
	program = filepath.Join(dir, "synchronizer")
	out, err := exec.Command("go", "build", "-o", program, "synchronizer/cmd/synchronizer").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return nil
}
