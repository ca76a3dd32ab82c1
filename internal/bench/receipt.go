// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"
)

// answers counts the alerts of all callers by their answers.
type answers struct {
	accepted, later, others int
	times                   []time.Duration // of the accepted, sorted
}

// tally counts, for each caller from the number that from has for it, or all; not
// while a caller posts.
func tally(callers []*caller, from ...int) (a answers) {
	for i, c := range callers {
		posts := c.posts
		if len(from) > 0 {
			posts = posts[from[i]:]
		}
		for _, p := range posts {
			switch p.status {
			case http.StatusAccepted:
				a.accepted++
				a.times = append(a.times, p.took)
			case http.StatusTooManyRequests:
				a.later++
			default:
				a.others++
			}
		}
	}
	slices.Sort(a.times)
	return a
}

// receipt is how what was stored differs from what was accepted.
type receipt struct {
	lost     int // accepted, and not there
	repeated int // messages beyond the first of each alert
	refused  int // there, although refused
	others   int // there, and the caller got another answer or none
}

// compare compares with the names that were stored, of so many messages.
func compare(callers []*caller, stored map[string]struct{}, messages int) receipt {
	got := receipt{repeated: messages - len(stored)}
	for _, c := range callers {
		for number, p := range c.posts {
			_, there := stored[c.name(number)]
			switch {
			case p.status == http.StatusAccepted:
				if !there {
					got.lost++
				}
			case !there:
			case p.status == http.StatusTooManyRequests:
				got.refused++
			default:
				got.others++
			}
		}
	}
	return got
}

// received reads what the backend has stored and how many reports came over its
// links.
func received(ctx context.Context, r *rig, callers []*caller) (receipt, error) {
	db, err := openDatabase(filepath.Join(r.dataDir(), "synchronizer.db"))
	if err != nil {
		return receipt{}, err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, "SELECT e.name FROM events e JOIN kinds k ON k.id = e.kind WHERE k.resource = 'runtimealerts'")
	if err != nil {
		return receipt{}, fmt.Errorf("reading the alerts that were stored: %w", err)
	}
	defer func() { _ = rows.Close() }()
	stored := map[string]struct{}{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return receipt{}, fmt.Errorf("reading the alerts that were stored: %w", err)
		}
		stored[name] = struct{}{}
	}
	if err := rows.Err(); err != nil {
		return receipt{}, fmt.Errorf("reading the alerts that were stored: %w", err)
	}
	m, err := scrape(ctx, r.http, r.addresses.Health)
	if err != nil {
		return receipt{}, err
	}
	return compare(callers, stored, int(m.sum("synchronizer_link_frames_total", "direction", "received", "event", "PutObject"))), nil
}
