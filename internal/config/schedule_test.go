// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCron(t *testing.T) {
	summer := time.Date(2026, 7, 1, 12, 30, 15, 500, time.UTC)
	for expression, want := range map[string]string{
		"0 * * * *":                              "2026-07-01T13:00:00Z",
		"45 * * * * *":                           "2026-07-01T12:30:45Z",
		" */10 * * * * ":                         "2026-07-01T12:40:00Z",
		"@daily":                                 "2026-07-02T00:00:00Z",
		"@every 90s":                             "2026-07-01T12:31:45Z",
		"TZ=Europe/Berlin 0 15 * * *":            "2026-07-01T13:00:00Z",
		"CRON_TZ=America/New_York 30 0 15 * * *": "2026-07-01T19:00:30Z",
		"0 0 13 * MON":                           "2026-07-06T00:00:00Z", // a date or a weekday
		"0 0 * * 7":                              "2026-07-05T00:00:00Z",
		"0 0 29 2 *":                             "2028-02-29T00:00:00Z",
	} {
		c, err := ParseCron(expression)
		require.NoError(t, err, expression)
		// The zone of the time that is asked for does not matter.
		for _, zone := range []*time.Location{time.UTC, time.FixedZone("", 5*3600+1800)} {
			require.Equal(t, want, c.Next(summer.In(zone)).UTC().Format(time.RFC3339Nano), expression)
		}
	}
	for _, expression := range []string{
		"", " ", "hourly", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "*/0 * * * *", "-1 * * * *", "99999999999999999999 * * * *",
		"0 0 30 2 *", "@never", "@every", "@every -1s", "@every 0s", "TZ=", "TZ=0", "TZ=UTC", "CRON_TZ=", "CRON_TZ=UTC ", "TZ=Nowhere/City 0 * * * *",
		"TZ=../../etc/passwd 0 * * * *", strings.Repeat("0,", 10_000) + "0 * * * *",
	} {
		_, err := ParseCron(expression)
		require.Error(t, err, expression)
	}
}

// TestCronWhereClocksChange: nothing is left out and nothing comes twice.
func TestCronWhereClocksChange(t *testing.T) {
	for _, test := range []struct {
		expression, after string
		want              []string
	}{
		{"TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", []string{"03-29T01:00", "03-30T00:30"}},
		{"TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", []string{"10-25T00:30", "10-26T01:30"}},
		{"TZ=Europe/Berlin 0 3 * * *", "2026-03-28T12:00:00Z", []string{"03-29T01:00", "03-30T01:00"}},
		{"TZ=Europe/Berlin 0 3 * * *", "2026-10-24T12:00:00Z", []string{"10-25T02:00", "10-26T02:00"}},
		{"TZ=Europe/Berlin */30 2 * * *", "2026-10-24T12:00:00Z", []string{"10-25T00:00", "10-25T00:30", "10-26T01:00"}},
		{"TZ=Europe/Berlin 0 1,4 * * *", "2026-03-28T12:00:00Z", []string{"03-29T00:00", "03-29T02:00", "03-29T23:00"}},
		{"TZ=Europe/Berlin 0 * * * *", "2026-03-28T23:30:00Z", []string{"03-29T00:00", "03-29T01:00", "03-29T02:00"}},
		{"TZ=Europe/Berlin 0 * * * *", "2026-10-24T23:30:00Z", []string{"10-25T00:00", "10-25T01:00", "10-25T02:00"}},
		{"TZ=Europe/Berlin 0 0 1 7 *", "2025-07-02T00:00:00Z", []string{"06-30T22:00", "06-30T22:00"}},
		{"TZ=America/Sao_Paulo 0 0 * * *", "2018-11-03T12:00:00Z", []string{"11-04T03:00", "11-05T02:00"}},    // no midnight
		{"TZ=America/Sao_Paulo 30 0 4 11 *", "2018-11-01T12:00:00Z", []string{"11-04T03:00", "11-04T03:30"}},  // 2019 has no such change
		{"TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-03T00:00:00Z", []string{"10-03T15:30", "10-04T15:15"}}, // by half an hour
		{"TZ=Africa/Cairo @daily", "2026-04-23T12:00:00Z", []string{"04-23T22:00", "04-24T21:00"}},
		{"TZ=UTC 30 2 * * *", "2026-03-28T12:00:00Z", []string{"03-29T02:30", "03-30T02:30"}},
		{"@every 1h", "2026-03-29T00:30:00Z", []string{"03-29T01:30", "03-29T02:30"}},
	} {
		c, err := ParseCron(test.expression)
		require.NoError(t, err, test.expression)
		at, err := time.Parse(time.RFC3339, test.after)
		require.NoError(t, err)
		var got []string
		for range test.want {
			at = c.Next(at)
			got = append(got, at.UTC().Format("01-02T15:04"))
		}
		require.Equal(t, test.want, got, "%s after %s", test.expression, test.after)
	}
}

// FuzzParseCron: nothing that is read panics, and the times that come are later ones.
func FuzzParseCron(f *testing.F) {
	for _, seed := range []string{"0 * * * *", "*/5 1-3,7 L * MON#2", "TZ=Europe/Berlin 0 30 2 * * SUN", "TZ=0", "@every 1h", "@every 9223372036854775807ns", "0 0 31 * ?"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		c, err := ParseCron(expression)
		if err != nil {
			return
		}
		at := time.Date(2026, 10, 25, 0, 59, 59, 999, time.UTC)
		for range 5 {
			next := c.Next(at)
			if next.IsZero() {
				return
			}
			require.True(t, next.After(at), "%s after %s", next, at)
			at = next
		}
	})
}

func TestSchedules(t *testing.T) {
	const path = "backend.reconciliationTaskConfig."
	const form = `: write it like "0 * * * *" or "TZ=Europe/Berlin 0 30 4 * * *" (seconds first)`
	for _, test := range []struct {
		task     string
		problems []string
		warnings []string
		cron     bool
	}{
		{`"cronSchedule":"0 * * * *","intervalFromConnectionSeconds":600`, nil, nil, true},
		{`"taskIntervalSeconds":60,"intervalFromConnectionSeconds":600`, nil, nil, false},
		{`"cronSchedule":"hourly","taskIntervalSeconds":60,"intervalFromConnectionSeconds":600`, nil, []string{
			path + `cronSchedule: "hourly" cannot be used, and taskIntervalSeconds is instead: reading cron expression: expected 5 to 6 fields, found 1: [hourly]` + form,
		}, false},
		{`"cronSchedule":"0 0 30 2 *","intervalFromConnectionSeconds":600`, []string{
			path + `cronSchedule: "0 0 30 2 *" cannot be used, and taskIntervalSeconds is not set: reading cron expression: it never comes` + form,
		}, nil, false},
		{`"cronSchedule":"TZ=UTC","taskIntervalSeconds":-1,"intervalFromConnectionSeconds":600`, []string{
			path + `cronSchedule: "TZ=UTC" cannot be used, and taskIntervalSeconds is not set: reading cron expression: missing fields after timezone in spec "TZ=UTC"` + form,
		}, nil, false},
		{`"cronSchedule":"0 * * * *"`, nil, []string{
			path + "intervalFromConnectionSeconds: not set: the periodic reconciliation is off; it is the least age of a connection that is asked",
		}, true},
		{`"taskIntervalSeconds":60,"intervalFromConnectionSeconds":-5`, nil, []string{
			path + "intervalFromConnectionSeconds: not set: the periodic reconciliation is off; it is the least age of a connection that is asked",
		}, false},
		{`"intervalFromConnectionSeconds":600,"sendBatch":true,"reconcileAfterConnectSeconds":30`, nil, nil, false},
	} {
		problems, warnings := findings(t, `"listen":"127.0.0.1:0","reconciliationTaskConfig":{`+test.task+`}`)
		require.Equal(t, test.problems, problems, test.task)
		require.Equal(t, test.warnings, warnings, test.task)
		if problems == nil {
			c, _, err := LoadServer(variables(folder(t, "config.json", `{"backend":{"listen":"127.0.0.1:0","reconciliationTaskConfig":{`+test.task+`}}}`)))
			require.NoError(t, err)
			require.Equal(t, test.cron, c.Backend.ReconciliationTask.Cron() != nil, test.task)
		}
	}
}

func TestFeatures(t *testing.T) {
	for _, test := range []struct {
		backend  string
		warnings []string
	}{
		{`"featuresProvider":{"featureFlagName":"alerts"}`, []string{
			"backend.featuresProvider.featureFlagName: has no effect without backend.authenticationServer.url, which is asked: all runtime alerts pass",
		}},
		{`"featuresProvider":{"featureFlagName":"alerts"},"authenticationServer":{"url":"http://h","headerToHeaderMapping":{"X-API-KEY":"X-Key"}}`, nil},
		{`"featuresProvider":{"refreshIntervalSeconds":5},"skipAlertsFrom":["a"],"keepAliveTaskConfig":{"taskIntervalSeconds":60}`, nil},
	} {
		problems, warnings := findings(t, `"listen":"127.0.0.1:0",`+test.backend)
		require.Empty(t, problems)
		require.Equal(t, test.warnings, warnings)
	}
	for text, want := range map[string]Seconds{"5": 5, "0": 3600, "-1": 3600, "9223372037": 3600, "9223372036": 9223372036, "1e30": 3600} {
		c, _, err := LoadServer(variables(folder(t, "config.json", `{"backend":{"listen":"127.0.0.1:0","featuresProvider":{"refreshIntervalSeconds":`+text+`}}}`)))
		require.NoError(t, err, text)
		require.Equal(t, want, c.Backend.FeaturesProvider.RefreshIntervalSeconds, text)
	}
}
