// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/config"
)

func TestUpComparesByDefault(t *testing.T) {
	var c config.Config
	compareByDefault(&c, config.Env{}.With("CONFIG", "folder"))
	require.Zero(t, c.Backend.ReconciliationTask.ReconcileAfterConnectSeconds, "the file says what is wanted")
	compareByDefault(&c, config.Env{}.With("CONFIG", ""))
	require.EqualValues(t, 30, c.Backend.ReconciliationTask.ReconcileAfterConnectSeconds)
}
