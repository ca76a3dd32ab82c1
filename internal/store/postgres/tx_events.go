// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"synchronizer"
)

// insertEvents keeps the first of two equal events, wherever the other is: in the
// table, in a transaction that has not ended (which it waits for), or in the batch.
const insertEvents = `INSERT INTO events (account, kind, at, ident, ns, name, uid, rv, body_ok, body, raw)
	SELECT account, kind, at, ident, ns, name, uid, rv, body_ok, body::json, raw
	FROM unnest($1::int[], $2::int[], $3::timestamptz[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bool[], $10::text[], $11::bytea[])
		WITH ORDINALITY t (account, kind, at, ident, ns, name, uid, rv, body_ok, body, raw, i)
	ORDER BY i ON CONFLICT (kind, ident) DO NOTHING RETURNING kind, ident`

// AppendEvents implements synchronizer.Tx.
func (t *tx) AppendEvents(ctx context.Context, events []synchronizer.EventRow) ([]bool, error) {
	if t.conn == nil {
		return nil, errTxOver
	}
	added := make([]bool, len(events))
	if len(events) == 0 {
		return added, nil
	}
	kinds := make([]synchronizer.ClusterKind, len(events))
	for i := range events {
		key := &events[i].Key
		if !utf8.ValidString(key.Namespace) || !utf8.ValidString(key.Name) {
			return nil, fmt.Errorf("%w: the key %q is not UTF-8", synchronizer.ErrInvalid, *key)
		}
		if events[i].At.IsZero() {
			return nil, fmt.Errorf("%w: event %s has no time", synchronizer.ErrInvalid, *key)
		}
		kinds[i] = synchronizer.ClusterKind{ClusterID: key.ClusterID, Kind: key.Kind}
	}
	if err := t.makeKinds(ctx, kinds); err != nil {
		return nil, err
	}
	type place struct {
		kind  int32
		ident synchronizer.EventIdent
	}
	first := map[place]int{}
	var accounts, numbers []int32
	var at []pgtype.Timestamptz
	var idents, raws [][]byte
	var namespaces, names, uids, versions []string
	var ok []bool
	var bodies []pgtype.Text
	for i := range events {
		e := &events[i]
		kind := t.kinds[kinds[i]]
		p := place{kind.id, e.Ident}
		if _, twice := first[p]; twice {
			continue
		}
		first[p] = i
		accounts, numbers = append(accounts, kind.cluster.account), append(numbers, kind.id)
		at, idents = append(at, toTime(e.At)), append(idents, e.Ident[:])
		namespaces, names = append(namespaces, toText(e.Key.Namespace)), append(names, toText(e.Key.Name))
		uids, versions = append(uids, toText(e.UID)), append(versions, toText(e.ResourceVersion))
		json, raw, plain := toBody(e.Body)
		bodies, raws, ok = append(bodies, json), append(raws, raw), append(ok, plain)
	}
	err := t.query(ctx, "appending events", insertEvents,
		[]any{accounts, numbers, at, idents, namespaces, names, uids, versions, ok, bodies, raws}, func(rows pgx.Rows) error {
			var p place
			var ident []byte
			if err := rows.Scan(&p.kind, &ident); err != nil {
				return err
			}
			copy(p.ident[:], ident)
			added[first[p]] = true
			return nil
		})
	return added, err
}
