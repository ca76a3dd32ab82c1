// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"synchronizer"
	"synchronizer/internal/store/postgres"
)

// postgreses are databases of one server.
type postgreses struct {
	server *postgresServer // nil: somebody else's
	url    url.URL
	number int
}

func newPostgreses(ctx context.Context, address string) (databases, error) {
	p := &postgreses{}
	if address == "" {
		var err error
		if p.server, err = startPostgres(ctx); err != nil {
			return nil, err
		}
		address = p.server.url()
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: --postgres is no URL", synchronizer.ErrInvalid), p.stop())
	}
	p.url = *u
	return p, nil
}

// at is the URL of a database of the server.
func (p *postgreses) at(name string) string {
	u := p.url
	u.Path = "/" + name
	return u.String()
}

func (p *postgreses) exec(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, p.url.String())
	if err != nil {
		return fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

func (p *postgreses) next(ctx context.Context) (benchDatabase, error) {
	p.number++
	name := fmt.Sprintf("synchronizer_bench_%d_%d", time.Now().UnixNano(), p.number)
	if err := p.exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, fmt.Errorf("making a database: %w", err)
	}
	return &postgresDatabase{postgreses: p, name: name}, nil
}

func (p *postgreses) cpu() (time.Duration, error) {
	if p.server == nil {
		return 0, nil
	}
	return p.server.cpu()
}

func (p *postgreses) about() string {
	if p.server == nil {
		return "PostgreSQL that was running already."
	}
	return fmt.Sprintf("%s with the settings that it comes with, over a socket, on files in a temporary folder.", p.server.version)
}

func (p *postgreses) stop() error {
	if p.server == nil {
		return nil
	}
	return p.server.remove()
}

type postgresDatabase struct {
	*postgreses
	name string
}

func (d *postgresDatabase) open(ctx context.Context) (benchStore, error) {
	db, err := postgres.Open(ctx, d.at(d.name))
	if err != nil {
		return nil, err // a nil *postgres.DB in the interface would not be nil
	}
	return db, nil
}

func (d *postgresDatabase) raw(ctx context.Context) (rawDatabase, error) {
	conn, err := pgx.Connect(ctx, d.at(d.name))
	if err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	return &rawPostgres{conn: conn}, nil
}

func (d *postgresDatabase) restart(ctx context.Context) error {
	if d.server == nil {
		return nil
	}
	return d.server.restart(ctx)
}

func (d *postgresDatabase) size(ctx context.Context) (size int64, err error) {
	conn, err := pgx.Connect(ctx, d.at(d.name))
	if err != nil {
		return 0, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	err = conn.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&size)
	return size, errors.Join(err, conn.Close(ctx))
}

func (d *postgresDatabase) remove(ctx context.Context) error {
	return d.exec(ctx, "DROP DATABASE "+d.name+" WITH (FORCE)")
}

// rawPostgres is pgx.
type rawPostgres struct{ conn *pgx.Conn }

func (r *rawPostgres) close(ctx context.Context) error { return r.conn.Close(ctx) }

func (r *rawPostgres) tables(ctx context.Context) (tables []rawTable, err error) {
	found, err := r.conn.Query(ctx, `SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum), array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum),
		(SELECT array_agg((SELECT count(*) FROM pg_attribute b WHERE b.attrelid = c.oid AND b.attnum > 0 AND NOT b.attisdropped AND b.attgenerated = '' AND b.attnum < k)::int)
			FROM pg_index i, unnest(i.indkey) k WHERE i.indrelid = c.oid AND i.indisprimary)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.relname NOT LIKE 'goose%' GROUP BY c.oid, c.relname ORDER BY c.relname`)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	for found.Next() {
		var t rawTable
		if err := found.Scan(&t.name, &t.columns, &t.types, &t.key); err != nil {
			return nil, fmt.Errorf("reading the schema: %w", err)
		}
		tables = append(tables, t)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	for i := range tables {
		if err := r.rows(ctx, &tables[i]); err != nil {
			return nil, fmt.Errorf("reading %s: %w", tables[i].name, err)
		}
	}
	return tables, nil
}

// rows reads every value as text.
func (r *rawPostgres) rows(ctx context.Context, t *rawTable) error {
	list := make([]string, len(t.columns))
	for i, c := range t.columns {
		list[i] = `"` + c + `"::text`
	}
	found, err := r.conn.Query(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+t.name)
	if err != nil {
		return err
	}
	for found.Next() {
		values, err := found.Values()
		if err != nil {
			return err
		}
		t.rows = append(t.rows, values)
	}
	return found.Err()
}

func (r *rawPostgres) write(ctx context.Context, step rawStep) error {
	return pgx.BeginFunc(ctx, r.conn, func(tx pgx.Tx) error {
		for i := range step {
			if err := rawPostgresPart(ctx, tx, &step[i]); err != nil {
				return fmt.Errorf("writing %s: %w", step[i].table.name, err)
			}
		}
		return nil
	})
}

// rawPostgresPart writes with one statement for all rows: an array per column.
func rawPostgresPart(ctx context.Context, tx pgx.Tx, p *rawPart) error {
	t := p.table
	all := make([]int, len(t.columns))
	for c := range all {
		all[c] = c
	}
	// from is the rows as a table x with the columns, of their types.
	from := func(columns []int) string {
		arrays, names, values := make([]string, len(columns)), make([]string, len(columns)), make([]string, len(columns))
		for i, c := range columns {
			arrays[i] = fmt.Sprintf("$%d::text[]", i+1)
			names[i] = `"` + t.columns[c] + `"`
			values[i] = names[i] + "::" + t.types[c] + " AS " + names[i]
		}
		return "(SELECT " + strings.Join(values, ", ") + " FROM unnest(" + strings.Join(arrays, ", ") + ") y(" + strings.Join(names, ", ") + ")) x"
	}
	equal := func(columns []int, left, separator string) string {
		list := make([]string, len(columns))
		for i, c := range columns {
			list[i] = left + `"` + t.columns[c] + `" = x."` + t.columns[c] + `"`
		}
		return strings.Join(list, separator)
	}
	if len(p.inserts) > 0 {
		_, err := tx.Exec(ctx, "INSERT INTO "+t.name+" ("+quoted(t.columns)+") OVERRIDING SYSTEM VALUE SELECT * FROM "+from(all)+p.onConflict(), arraysOf(p.inserts, all)...)
		if err != nil {
			return err
		}
	}
	if len(p.updates) > 0 {
		columns := append(append([]int{}, t.key...), p.changed...)
		_, err := tx.Exec(ctx, "UPDATE "+t.name+" SET "+equal(p.changed, "", ", ")+" FROM "+from(columns)+" WHERE "+equal(t.key, t.name+".", " AND "), arraysOf(p.updates, columns)...)
		if err != nil {
			return err
		}
	}
	if len(p.deletes) > 0 {
		_, err := tx.Exec(ctx, "DELETE FROM "+t.name+" USING "+from(t.key)+" WHERE "+equal(t.key, t.name+".", " AND "), arraysOf(p.deletes, t.key)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// arraysOf turns rows into an array per column.
func arraysOf(rows [][]any, columns []int) []any {
	arrays := make([]any, len(columns))
	for i, c := range columns {
		array := make([]*string, len(rows))
		for k, row := range rows {
			if text, ok := row[c].(string); ok {
				array[k] = &text
			}
		}
		arrays[i] = array
	}
	return arrays
}
