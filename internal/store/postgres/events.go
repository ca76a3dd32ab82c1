// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"synchronizer"
	"synchronizer/internal/store/walk"
)

// Events implements synchronizer.Events.
func (db *DB) Events(ctx context.Context, q synchronizer.EventQuery) (synchronizer.EventPage, error) {
	query, err := walk.NewEventQuery(q)
	if err != nil {
		return synchronizer.EventPage{}, err
	}
	var page synchronizer.EventPage
	err = db.reading(ctx, "reading events", func(tx pgx.Tx) error {
		account, known, err := scope{account: q.Account}.number(ctx, tx)
		if err != nil || !known {
			return err
		}
		page, err = walk.EventPage(ctx, eventReader{reader{tx: tx}, q.Account}, int64(account), query, db.settings.limits)
		return err
	})
	return page, err
}

// eventReader reads the events of an account, of which it knows the name.
type eventReader struct {
	reader
	account string
}

// EventsBehind implements walk.EventIndex.
func (r eventReader) EventsBehind(ctx context.Context, account int64, behind walk.EventPlace, limit int, each func(*walk.FoundEvent) bool) error {
	for ask := portion; limit > 0; ask *= 4 {
		ask = min(ask, limit)
		got, more := 0, true
		err := r.query(ctx, `SELECT e.id, e.at, e.ident, e.ns, e.name, e.uid, e.rv, c.name, k.grp, k.version, k.resource
			FROM (SELECT * FROM events WHERE account = $1 AND (at, id) < ($2, $3) ORDER BY at DESC, id DESC LIMIT $4) e
			JOIN kinds k ON k.id = e.kind JOIN clusters c ON c.id = k.cluster ORDER BY e.at DESC, e.id DESC`,
			[]any{int32(account), toTime(behind.At), behind.ID, ask}, func(rows pgx.Rows) (bool, error) {
				f := walk.FoundEvent{}
				f.Key.Account = r.account
				texts := []*string{&f.Key.Namespace, &f.Key.Name, &f.UID, &f.ResourceVersion, &f.Key.Cluster, &f.Key.Kind.Group, &f.Key.Kind.Version, &f.Key.Kind.Resource}
				var at pgtype.Timestamptz
				var ident []byte
				into := []any{&f.ID, &at, &ident}
				for _, text := range texts {
					into = append(into, text)
				}
				if err := rows.Scan(into...); err != nil {
					return false, err
				}
				for _, text := range texts {
					*text = fromText(*text)
				}
				copy(f.Ident[:], ident)
				f.At = fromTime(at)
				got++
				behind = walk.EventPlace{At: f.At, ID: f.ID}
				more = each(&f)
				return more, nil
			})
		if err != nil || !more || got < ask {
			return err
		}
		limit -= got
	}
	return nil
}

// EventBodies implements walk.EventIndex.
func (r eventReader) EventBodies(ctx context.Context, ids []int64, each func(id int64, body []byte)) error {
	return r.bodies(ctx, "events", ids, each)
}
