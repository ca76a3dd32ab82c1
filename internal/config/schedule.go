// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // images have no zones, and a schedule may name one

	"github.com/netresearch/go-cron"
)

// cronForm is what crontab takes, with a field for seconds in front if there are six, and
// @hourly and the like. A day matches if either its date or its weekday does, as there.
var cronForm = cron.MustNewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)

// Cron is a cron schedule, in UTC unless its expression says otherwise.
type Cron struct{ schedule cron.Schedule }

// ParseCron reads a cron expression: five fields, or six with seconds first, and before them
// TZ= or CRON_TZ= with a time zone if it is not UTC. One that names no time in the next years
// (30 February) is refused.
func ParseCron(expression string) (*Cron, error) {
	schedule, err := cronForm.Parse(strings.TrimSpace(expression))
	if err != nil {
		return nil, fmt.Errorf("reading cron expression: %w", err)
	}
	c := &Cron{schedule}
	if c.Next(time.Now()).IsZero() {
		return nil, errors.New("reading cron expression: it never comes")
	}
	return c, nil
}

// Next gives the first time of the schedule behind another, the zero time if there is none.
// Where clocks are put forward, what falls between is due as they are; where they are put
// back, what comes twice is due once, unless it is due at every hour.
func (c *Cron) Next(after time.Time) time.Time {
	after = after.UTC()
	next := c.schedule.Next(after)
	spec, ok := c.schedule.(*cron.SpecSchedule)
	if !ok || next.IsZero() || spec.Location == nil {
		return next
	}
	const everyHour = 1<<24 - 1
	for at := after.In(spec.Location); ; {
		_, change := at.ZoneBounds()
		if change.IsZero() || change.After(next) {
			break
		}
		if left := leap(change); left > 0 {
			still := *spec // as if the clocks had not been put forward
			still.Location = time.FixedZone("", offset(change.Add(-time.Nanosecond)))
			if skipped := still.Next(change.Add(-time.Nanosecond)); !skipped.IsZero() && skipped.Before(change.Add(left)) && change.After(after) {
				return change.UTC()
			}
		}
		at = change.In(spec.Location)
	}
	if change, _ := next.In(spec.Location).ZoneBounds(); !change.IsZero() && spec.Hour&everyHour != everyHour {
		if again := change.Add(-leap(change)); next.Before(again) {
			return c.Next(again.Add(-time.Nanosecond))
		}
	}
	return next
}

// leap is by how much clocks are put forward at a change.
func leap(change time.Time) time.Duration {
	return time.Duration(offset(change)-offset(change.Add(-time.Nanosecond))) * time.Second
}

func offset(at time.Time) int {
	_, seconds := at.Zone()
	return seconds
}

// Cron is the schedule of the periodic reconciliation, nil when cronSchedule is empty or
// cannot be read: then taskIntervalSeconds counts, and validation has told so.
func (t *ReconciliationTask) Cron() *Cron {
	if t.CronSchedule == "" {
		return nil
	}
	c, err := ParseCron(t.CronSchedule)
	if err != nil {
		return nil
	}
	return c
}

// schedules checks when the server asks clients to reconcile.
func (k *checker) schedules(b *Backend) {
	const path = "backend.reconciliationTaskConfig."
	task := &b.ReconciliationTask
	if task.CronSchedule != "" {
		if _, err := ParseCron(task.CronSchedule); err != nil {
			const form = `write it like "0 * * * *" or "TZ=Europe/Berlin 0 30 4 * * *" (seconds first)`
			if task.TaskIntervalSeconds > 0 {
				k.warn(path+"cronSchedule", "%q cannot be used, and taskIntervalSeconds is instead: %v: %s", task.CronSchedule, err, form)
			} else {
				k.problem(path+"cronSchedule", "%q cannot be used, and taskIntervalSeconds is not set: %v: %s", task.CronSchedule, err, form)
			}
		}
	}
	if (task.CronSchedule != "" || task.TaskIntervalSeconds > 0) && task.IntervalFromConnectionSeconds == 0 {
		k.warn(path+"intervalFromConnectionSeconds", "not set: the periodic reconciliation is off; it is the least age of a connection that is asked")
	}
}

// features checks the gate of runtime alerts.
func (k *checker) features(b *Backend) {
	if b.FeaturesProvider.FeatureFlagName != "" && b.AuthenticationServer.URL == "" {
		k.warn("backend.featuresProvider.featureFlagName", "has no effect without backend.authenticationServer.url, which is asked: all runtime alerts pass")
	}
}
