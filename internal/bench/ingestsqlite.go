// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"synchronizer/internal/store/sqlite"
)

// sqlites are files in a folder.
type sqlites struct {
	dir    string
	number int
}

func newSQLites() (databases, error) {
	dir, err := os.MkdirTemp("", "synchronizer-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the database: %w", err)
	}
	return &sqlites{dir: dir}, nil
}

func (s *sqlites) next(context.Context) (benchDatabase, error) {
	s.number++
	dir := filepath.Join(s.dir, fmt.Sprint(s.number))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for the database: %w", err)
	}
	return &sqliteFile{file: filepath.Join(dir, "synchronizer.db")}, nil
}

func (s *sqlites) cpu() (time.Duration, error) { return 0, nil }
func (s *sqlites) stop() error                 { return os.RemoveAll(s.dir) }

func (s *sqlites) about() string {
	return "SQLite (modernc.org/sqlite) in a file of a temporary folder, WAL, synchronous=FULL."
}

type sqliteFile struct{ file string }

func (f *sqliteFile) open(ctx context.Context) (benchStore, error) {
	db, err := sqlite.Open(ctx, f.file)
	if err != nil {
		return nil, err // a nil *sqlite.DB in the interface would not be nil
	}
	return db, nil
}

func (f *sqliteFile) raw(ctx context.Context) (rawDatabase, error) {
	u := url.URL{Scheme: "file", Path: f.file, RawQuery: url.Values{
		"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(1000)", "cache_size(-16384)"},
	}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database: %w", err), db.Close())
	}
	return &rawSQLite{db: db, conn: conn, statements: map[string]*sql.Stmt{}}, nil
}

// restart has nothing to do: the store was closed, and the files are in the
// memory of the operating system as they are after a restart of the program.
func (f *sqliteFile) restart(context.Context) error { return nil }

func (f *sqliteFile) size(context.Context) (int64, error) {
	var size int64
	files, err := filepath.Glob(f.file + "*")
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return 0, fmt.Errorf("reading the size of the database: %w", err)
		}
		size += info.Size()
	}
	return size, err
}

func (f *sqliteFile) remove(context.Context) error { return os.RemoveAll(filepath.Dir(f.file)) }

// rawSQLite is modernc.org/sqlite behind database/sql.
type rawSQLite struct {
	db         *sql.DB
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

func (r *rawSQLite) close(context.Context) error {
	var errs []error
	for _, s := range r.statements {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, r.conn.Close(), r.db.Close())...)
}

func (r *rawSQLite) tables(ctx context.Context) (tables []rawTable, err error) {
	names, err := r.strings(ctx, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name NOT LIKE 'goose%' ORDER BY name`)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		t := rawTable{name: name}
		if t.columns, err = r.strings(ctx, "SELECT name FROM pragma_table_info(?) ORDER BY cid", name); err != nil {
			return nil, err
		}
		key, err := r.strings(ctx, "SELECT cid FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", name)
		if err != nil {
			return nil, err
		}
		for _, text := range key {
			var c int
			if _, err := fmt.Sscan(text, &c); err != nil {
				return nil, fmt.Errorf("reading the key of %s: %w", name, err)
			}
			t.key = append(t.key, c)
		}
		if t.rows, err = r.rows(ctx, &t); err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

func (r *rawSQLite) rows(ctx context.Context, t *rawTable) ([][]any, error) {
	found, err := r.conn.QueryContext(ctx, "SELECT "+quoted(t.columns)+" FROM "+t.name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", t.name, err)
	}
	defer func() { _ = found.Close() }()
	var rows [][]any
	for found.Next() {
		row := make([]any, len(t.columns))
		into := make([]any, len(t.columns))
		for c := range row {
			into[c] = &row[c]
		}
		if err := found.Scan(into...); err != nil {
			return nil, fmt.Errorf("reading %s: %w", t.name, err)
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}

func (r *rawSQLite) strings(ctx context.Context, query string, args ...any) (list []string, err error) {
	found, err := r.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var s string
		if err := found.Scan(&s); err != nil {
			return nil, fmt.Errorf("reading the schema: %w", err)
		}
		list = append(list, s)
	}
	return list, found.Err()
}

func (r *rawSQLite) write(ctx context.Context, step rawStep) error {
	if err := r.exec(ctx, "BEGIN IMMEDIATE", nil); err != nil {
		return err
	}
	for i := range step {
		if err := r.part(ctx, &step[i]); err != nil {
			return fmt.Errorf("writing %s: %w", step[i].table.name, err)
		}
	}
	return r.exec(ctx, "COMMIT", nil)
}

func (r *rawSQLite) part(ctx context.Context, p *rawPart) error {
	t := p.table
	width := len(t.columns)
	rowsEach := min(max(400/width, 1), 100)
	one := "(" + strings.Repeat("?, ", width-1) + "?)"
	for rows := p.inserts; len(rows) > 0; {
		n := rowsEach
		for n > len(rows) {
			n = max(n/5, 1)
		}
		values := make([]any, 0, n*width)
		for _, row := range rows[:n] {
			values = append(values, row...)
		}
		text := "INSERT INTO " + t.name + " (" + quoted(t.columns) + ") VALUES " + strings.Repeat(one+", ", n-1) + one + p.onConflict()
		if err := r.exec(ctx, text, values); err != nil {
			return err
		}
		rows = rows[n:]
	}
	where := make([]string, len(t.key))
	for i, c := range t.key {
		where[i] = `"` + t.columns[c] + `" = ?`
	}
	set := make([]string, len(p.changed))
	for i, c := range p.changed {
		set[i] = `"` + t.columns[c] + `" = ?`
	}
	update := "UPDATE " + t.name + " SET " + strings.Join(set, ", ") + " WHERE " + strings.Join(where, " AND ")
	remove := "DELETE FROM " + t.name + " WHERE " + strings.Join(where, " AND ")
	pick := func(row []any, columns ...[]int) (values []any) {
		for _, list := range columns {
			for _, c := range list {
				values = append(values, row[c])
			}
		}
		return values
	}
	for _, row := range p.updates {
		if err := r.exec(ctx, update, pick(row, p.changed, t.key)); err != nil {
			return err
		}
	}
	for _, row := range p.deletes {
		if err := r.exec(ctx, remove, pick(row, t.key)); err != nil {
			return err
		}
	}
	return nil
}

func (r *rawSQLite) exec(ctx context.Context, text string, args []any) (err error) {
	s := r.statements[text]
	if s == nil {
		if s, err = r.conn.PrepareContext(ctx, text); err != nil {
			return err
		}
		r.statements[text] = s
	}
	_, err = s.ExecContext(context.WithoutCancel(ctx), args...) // watching ctx costs a goroutine per statement
	return err
}
