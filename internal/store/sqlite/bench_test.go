// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"testing"

	"synchronizer/internal/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, 20_000, func(b *testing.B) storetest.Backend { return &backend{openAt(b, newPath(b))} })
}
