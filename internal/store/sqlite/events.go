// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"unicode/utf8"

	"synchronizer"
	"synchronizer/internal/store/walk"
)

// insertEvent keeps the first of two equal events.
const insertEvent = `INSERT INTO events (account, kind, at, ident, ns, name, uid, rv, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (kind, ident) DO NOTHING RETURNING id`

// AppendEvents implements synchronizer.Tx.
func (t *tx) AppendEvents(ctx context.Context, events []synchronizer.EventRow) ([]bool, error) {
	if t.writer == nil {
		return nil, errTxOver
	}
	added := make([]bool, len(events))
	for i := range events {
		e := &events[i]
		if !utf8.ValidString(e.Key.Namespace) || !utf8.ValidString(e.Key.Name) {
			return nil, fmt.Errorf("%w: the key %q is not UTF-8", synchronizer.ErrInvalid, e.Key)
		}
		if e.At.IsZero() {
			return nil, fmt.Errorf("%w: event %s has no time", synchronizer.ErrInvalid, e.Key)
		}
		kind, err := t.makeKind(ctx, synchronizer.ClusterKind{ClusterID: e.Key.ClusterID, Kind: e.Key.Kind})
		if err != nil {
			return nil, err
		}
		account, err := t.account(ctx, e.Key.Account)
		if err != nil {
			return nil, err
		}
		var body any
		if e.Body != nil {
			body = string(e.Body)
		}
		var id int64
		added[i], err = t.values(ctx, "appending an event", insertEvent, []any{
			account, kind, micros(e.At), e.Ident[:], e.Key.Namespace, e.Key.Name, e.UID, e.ResourceVersion, body,
		}, &id)
		if err != nil {
			return nil, err
		}
	}
	return added, nil
}

// Events implements synchronizer.Events.
func (db *DB) Events(ctx context.Context, q synchronizer.EventQuery) (synchronizer.EventPage, error) {
	query, err := walk.NewEventQuery(q)
	if err != nil {
		return synchronizer.EventPage{}, err
	}
	var page synchronizer.EventPage
	err = db.reading(ctx, func(tx *sql.Tx) error {
		account, known, err := scope{account: q.Account}.number(ctx, tx)
		if err != nil || !known {
			return err
		}
		r := newReader(tx, nil)
		defer r.close()
		page, err = walk.EventPage(ctx, eventReader{r, q.Account}, account, query, db.limits)
		return err
	})
	if err != nil {
		return synchronizer.EventPage{}, db.failure("reading events", contextError(ctx, err))
	}
	return page, nil
}

// eventReader reads the events of an account, of which it knows the name.
type eventReader struct {
	*reader
	account string
}

const walkEvents = `SELECT e.id, e.at, e.ident, e.ns, e.name, e.uid, e.rv, c.name, k.grp, k.version, k.resource
	FROM events e CROSS JOIN kinds k ON k.id = e.kind CROSS JOIN clusters c ON c.id = k.cluster
	WHERE e.account = ? AND (e.at, e.id) < (?, ?) ORDER BY e.at DESC, e.id DESC LIMIT ?`

// EventsBehind implements walk.EventIndex.
func (r eventReader) EventsBehind(ctx context.Context, account int64, behind walk.EventPlace, limit int, each func(*walk.FoundEvent) bool) error {
	return r.query(ctx, walkEvents, []any{account, micros(behind.At), behind.ID, limit}, func(rows *sql.Rows) (bool, error) {
		f := walk.FoundEvent{}
		f.Key.Account = r.account
		var at int64
		var ident []byte
		if err := rows.Scan(&f.ID, &at, &ident, &f.Key.Namespace, &f.Key.Name, &f.UID, &f.ResourceVersion, &f.Key.Cluster,
			&f.Key.Kind.Group, &f.Key.Kind.Version, &f.Key.Kind.Resource); err != nil {
			return false, err
		}
		copy(f.Ident[:], ident)
		f.At = fromMicros(at)
		return each(&f), nil
	})
}

// EventBodies implements walk.EventIndex.
func (r eventReader) EventBodies(ctx context.Context, ids []int64, each func(id int64, body []byte)) error {
	return r.bodies(ctx, "events", ids, each)
}
