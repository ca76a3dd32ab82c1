// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// BenchmarkReadPage decodes a page of 500 items of 2.7 KB from memory.
func BenchmarkReadPage(b *testing.B) {
	var list bytes.Buffer
	list.WriteString(`{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{"resourceVersion":"9"},"items":[`)
	for i := range 500 {
		if i > 0 {
			list.WriteByte(',')
		}
		fmt.Fprintf(&list, `{"metadata":{"name":"app-%d","namespace":"n","uid":"u-%d","resourceVersion":"%d","labels":{"app":"a-%d"}},"spec":{"env":[%s]}}`,
			i, i, i, i, strings.Repeat(`{"name":"SOME_NAME","value":"https://service.namespace.svc:8080/path"},`, 36)+"1")
	}
	list.WriteString("]}\n")
	b.SetBytes(int64(list.Len()))
	b.ReportAllocs()
	for b.Loop() {
		_, err := readPage(newScanner(bytes.NewReader(list.Bytes()), listBuffer), testItems(DefaultItemBytes), func(synchronizer.Object) error { return nil })
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/500, "µs/item")
}
