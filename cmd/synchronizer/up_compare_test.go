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
	require.Zero(t, c.Backend.ReconciliationTask, "the file says what is wanted")
	compareByDefault(&c, config.Env{}.With("CONFIG", ""))
	task := c.Backend.ReconciliationTask
	require.EqualValues(t, 30, task.ReconcileAfterConnectSeconds)
	require.EqualValues(t, 600, task.IntervalFromConnectionSeconds)
	require.NotNil(t, task.Cron(), "every hour")
}
