// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCrowd(t *testing.T) {
	c := crowd{percent: gcPercent}
	for _, step := range []struct {
		clients, percent int
		over             bool
		why              string
	}{
		{0, gcPercent, false, "nobody"},
		{1990, gcPercent, false, "a few"},
		{1995, gcPercent, false, "still few"},
		{6000, gcPercentMany, false, "a storm"},
		{10_000, gcPercentMany, false, "goes on"},
		{10_005, gcPercentMany, true, "is over"},
		{10_006, gcPercentMany, false, "nothing new"},
		{11_500, gcPercentMany, false, "too few for another one"},
		{11_500, gcPercentMany, false, "still too few"},
		{1000, gcPercent, false, "a network is gone"},
		{9000, gcPercentMany, false, "and back"},
		{9000, gcPercentMany, true, "which is over"},
	} {
		require.Equal(t, step.over, c.look(step.clients), step.why)
		require.Equal(t, step.percent, c.percent, step.why)
	}
}
