// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"

	"synchronizer"
)

// Each transaction gives the next positions: there is one writer, so they are
// committed in their order.
var insertChange = newMultiRow("writing the change feed",
	"INSERT INTO changes (account, pos, cluster, kind, op, at, gen, seq, ns, name) VALUES ", 10, "", 50, 10)

// writeFeed appends one entry per change.
func (t *tx) writeFeed(ctx context.Context, changes []change) error {
	values := make([]any, 0, 10*len(changes))
	for i := range changes {
		row := changes[i].row
		op := synchronizer.ChangePut
		if row.Deleted() {
			op = synchronizer.ChangeDelete
		}
		account, err := t.account(ctx, row.Key.Account)
		if err != nil {
			return err
		}
		cluster, err := t.cluster(ctx, row.Key.ClusterID)
		if err != nil {
			return err
		}
		position, err := t.position(ctx, account)
		if err != nil {
			return err
		}
		values = append(values, account, position, cluster, changes[i].key.kind, int64(op),
			micros(row.UpdatedAt), row.Order.Generation, int64(row.Order.Seq), row.Key.Namespace, row.Key.Name)
	}
	return insertChange.exec(ctx, t.writer, values)
}

// position gives the next one of an account.
func (t *tx) position(ctx context.Context, account int64) (int64, error) {
	if t.feeds == nil {
		t.feeds = map[int64]feed{}
	}
	f, known := t.feeds[account]
	if !known {
		var err error
		if f.last, err = t.number(ctx, "reading a feed", "SELECT feed_position FROM accounts WHERE id = ?", account); err != nil {
			return 0, err
		}
	}
	f.last++
	f.added++
	t.feeds[account] = f
	return f.last, nil
}

// feed is what a transaction did to a feed.
type feed struct{ last, added int64 }

// finish writes what is kept per kind and account, and shortens feeds.
func (t *tx) finish(ctx context.Context) error {
	for id, kind := range t.touched {
		if err := t.writer.exec(ctx, "updating a kind",
			"UPDATE kinds SET objects = objects + ?, last_change = max(last_change, ?) WHERE id = ?",
			kind.objects, kind.lastChange, id); err != nil {
			return err
		}
	}
	length := t.writer.settings.feedLength
	for account, f := range t.feeds {
		if err := t.writer.exec(ctx, "updating a feed", "UPDATE accounts SET feed_position = ? WHERE id = ?", f.last, account); err != nil {
			return err
		}
		// Now and then: when a hundredth was added.
		if t.writer.feed[account] += f.added; t.writer.feed[account] < max(1, length/100) || f.last <= length {
			continue
		}
		t.writer.feed[account] = 0
		if err := t.writer.exec(ctx, "shortening a feed", "UPDATE accounts SET feed_floor = max(feed_floor, ?) WHERE id = ?", f.last-length, account); err != nil {
			return err
		}
		if err := t.writer.exec(ctx, "shortening a feed", "DELETE FROM changes WHERE account = ? AND pos <= ?", account, f.last-length); err != nil {
			return err
		}
	}
	return nil
}
