// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"strings"
)

// multiRow is a statement about many rows at a time: one call of the database
// for up to sizes[0] rows. The sizes are few, so that each is prepared once.
type multiRow struct {
	doing string // for errors
	width int    // values per row
	sizes []int  // descending, the last is 1
	texts map[int]string
}

// newMultiRow makes a statement of before, a list of tuples like (?,?), and after.
func newMultiRow(doing, before string, width int, after string, sizes ...int) *multiRow {
	tuple := "(?" + strings.Repeat(",?", width-1) + ")"
	m := &multiRow{doing: doing, width: width, sizes: append(sizes, 1), texts: map[int]string{}}
	for _, size := range m.sizes {
		m.texts[size] = before + tuple + strings.Repeat(","+tuple, size-1) + after
	}
	return m
}

// chunks calls fn with the statements that together cover the values.
func (m *multiRow) chunks(values []any, fn func(text string, values []any) error) error {
	for _, size := range m.sizes {
		for len(values) >= size*m.width {
			if err := fn(m.texts[size], values[:size*m.width]); err != nil {
				return err
			}
			values = values[size*m.width:]
		}
	}
	return nil
}

func (m *multiRow) exec(ctx context.Context, w *writer, values []any) error {
	return m.chunks(values, func(text string, values []any) error {
		return w.exec(ctx, m.doing, text, values...)
	})
}

func (m *multiRow) query(ctx context.Context, w *writer, values []any, scan func(*sql.Rows) error) error {
	return m.chunks(values, func(text string, values []any) error {
		return w.query(ctx, m.doing, text, values, scan)
	})
}
