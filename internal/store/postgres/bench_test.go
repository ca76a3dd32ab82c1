// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"testing"

	"synchronizer/internal/store/storetest"
	"synchronizer/test/pgtest"
)

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, 20_000, func(b *testing.B) storetest.Backend {
		url := pgtest.Database(b)
		return &backend{openAt(b, url), url}
	})
}
