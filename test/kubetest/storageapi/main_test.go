// SPDX-License-Identifier: Apache-2.0

package storageapi_test

import (
	"os"
	"testing"

	"synchronizer/test/kubetest"
)

// shared is the real API server. startErr goes to Require.
var (
	shared   *kubetest.Cluster
	startErr error
)

func TestMain(m *testing.M) {
	os.Exit(kubetest.Main(m, func(_ string, c *kubetest.Cluster, err error) { shared, startErr = c, err }))
}
