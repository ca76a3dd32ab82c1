// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// commits sees rows as a reader of the database does: it looks at the version of
// the file every millisecond, which costs some microseconds, and when a transaction
// was committed reads the change feed from where it was. So a time is when another
// process could read the row, at most a millisecond (and the reading) late.
type commits struct {
	db  *sql.DB
	pos int64
	// last is the version that was seen last.
	last version
	seen
}

// seen is when each version of an object was first readable.
type seen map[version]time.Time

const commitPoll = time.Millisecond

// openDatabase opens the backend's database to read it, over one connection.
func openDatabase(file string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: file, RawQuery: url.Values{
		"mode": {"ro"}, "_pragma": {"busy_timeout(1000)", "query_only(1)"},
	}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("opening the database to read it: %w", err)
	}
	db.SetMaxOpenConns(1) // data_version is that of a connection
	return db, nil
}

// openCommits starts behind what is committed now.
func openCommits(ctx context.Context, file string) (*commits, error) {
	db, err := openDatabase(file)
	if err != nil {
		return nil, err
	}
	c := &commits{db: db, seen: seen{}}
	if err := db.QueryRowContext(ctx, "SELECT coalesce(max(pos), 0) FROM changes").Scan(&c.pos); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("reading the change feed: %w", err)
	}
	return c, nil
}

// follow notes commits until ctx ends (nil) or reading fails. progress gets the
// number of versions seen so far after each commit.
func (c *commits) follow(ctx context.Context, progress func(int)) error {
	poll, err := c.db.PrepareContext(ctx, "PRAGMA data_version")
	if err != nil {
		return fmt.Errorf("reading the database's version: %w", err)
	}
	defer func() { _ = poll.Close() }()
	tick := time.NewTicker(commitPoll)
	defer tick.Stop()
	for last := int64(-1); ; {
		var now int64
		err := poll.QueryRowContext(ctx).Scan(&now)
		if err == nil && now != last {
			last = now
			err = c.read(ctx)
			progress(len(c.seen))
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the change feed: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *commits) read(ctx context.Context) error {
	rows, err := c.db.QueryContext(ctx, `SELECT c.pos, o.ns, o.name, o.rv FROM changes c JOIN objects o ON o.kind = c.kind AND o.ns = c.ns AND o.name = c.name
		WHERE c.account = (SELECT min(account) FROM changes) AND c.pos > ? ORDER BY c.pos`, c.pos) // a benchmark has one account
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for at := time.Now(); rows.Next(); {
		var v version
		if err := rows.Scan(&c.pos, &v.namespace, &v.name, &v.resourceVersion); err != nil {
			return err
		}
		c.last = v
		if _, ok := c.seen[v]; !ok {
			c.seen[v] = at
		}
	}
	return rows.Err()
}
