// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"fmt"
	"os"

	"go.uber.org/goleak"
)

// Main runs the tests of a package that share one API server, for TestMain:
//
//	func TestMain(m *testing.M) {
//		os.Exit(kubetest.Main(m, func(dir string, c *kubetest.Cluster, err error) { shared, startErr = c, err }))
//	}
//
// ready gets the cluster, or why there is none (for Require), and a folder that
// lives as long as the tests. Main stops the cluster afterwards and fails if a
// goroutine is left behind that is not ignored. The result is the exit code.
func Main(m interface{ Run() int }, ready func(dir string, cluster *Cluster, err error), ignored ...goleak.Option) int {
	dir, err := os.MkdirTemp("", "kubetest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cluster, startErr := StartMain(dir)
	ready(dir, cluster, startErr)
	status := m.Run()
	if startErr == nil {
		err = cluster.Stop()
	}
	if err == nil {
		err = goleak.Find(ignored...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	return status
}
