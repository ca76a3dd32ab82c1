// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

// lines decodes a file of JSON lines.
func lines[T any](t testing.TB, name string) []T {
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	var all []T
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var one T
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &one))
		all = append(all, one)
	}
	require.NoError(t, scanner.Err())
	require.NotEmpty(t, all)
	return all
}

func TestV1Vectors(t *testing.T) {
	for _, v := range lines[struct {
		Name, Checksum string
		Object         json.RawMessage
	}](t, "testdata/checksum-v1.jsonl") {
		got, err := V1(v.Object)
		require.NoError(t, err, v.Name)
		require.Equal(t, v.Checksum, got, v.Name)
	}
}

// Objects that a client of the field sent, with the checksums it sent.
func TestV1OfRecordedObjects(t *testing.T) {
	for _, v := range lines[struct{ Scenario, Checksum, Object string }](t, "testdata/putobjects-v1.jsonl") {
		got, err := ObjectV1([]byte(v.Object))
		require.NoError(t, err, v.Scenario)
		require.Equal(t, v.Checksum, got, v.Scenario)
	}
}

func TestObjectV1HonoursTheAnnotation(t *testing.T) {
	for doc, want := range map[string]string{
		`{"metadata":{"annotations":{"kubescape.io/sync-checksum":"abc"}}}`:                                        "abc",
		`{"metadata":{"annotations":{"kubescape.io\/sync\u002dchecksum":"a\u0062c"}}}`:                             "abc",
		`{"metadata":{"annotations":{"kubescape.io/sync-checksum":"x","kubescape.io/sync-checksum":"y"}}}`:         "y",
		`{"metadata":{"annotations":{"kubescape.io/sync-checksum":""}}}`:                                           "",
		`{"metadata":{"annotations":{"kubescape.io/sync-checksum":1}}}`:                                            "",
		`{"metadata":{"annotations":{"kubescape.io/sync-checksum":"x"}},"metadata":{}}`:                            "",
		`{"spec":{"metadata":{"annotations":{"kubescape.io/sync-checksum":"x"}}},"metadata":{"annotations":null}}`: "",
	} {
		if want == "" {
			var err error
			want, err = V1([]byte(doc))
			require.NoError(t, err)
		}
		got, err := ObjectV1([]byte(doc))
		require.NoError(t, err)
		require.Equal(t, want, got, doc)
	}
}

func TestV1Errors(t *testing.T) {
	for _, doc := range []string{``, `{`, `{}x`, `1e400`, `{"a":1,}`, strings.Repeat("[", 1001) + strings.Repeat("]", 1001)} {
		_, err := V1([]byte(doc))
		require.ErrorIs(t, err, synchronizer.ErrInvalid, doc)
		_, err = ObjectV1([]byte(doc))
		require.Error(t, err)
	}
	_, err := V1([]byte(strings.Repeat("[", 500) + strings.Repeat("]", 500)))
	require.NoError(t, err)
}

// reference is checksum v1 as design 02 §2.2 words it, on decoded values.
func reference(value any, path string) string {
	sum := func(text string) string {
		h := sha256.Sum256([]byte(text))
		return hex.EncodeToString(h[:])
	}
	switch v := value.(type) {
	case string:
		return sum(v)
	case float64:
		return sum(string(binary.BigEndian.AppendUint64(nil, math.Float64bits(v))))
	case []any:
		var texts []string
		for _, element := range v {
			texts = append(texts, reference(element, path))
		}
		sort.Strings(texts)
		return sum(strings.Join(texts, "|"))
	case map[string]any:
		var texts []string
		for name, member := range v {
			if path+"."+name != ".status.conditions" {
				texts = append(texts, sum(name)+":"+reference(member, path+"."+name))
			}
		}
		sort.Strings(texts)
		return sum(strings.Join(texts, "|"))
	case nil:
		return sum("null")
	default:
		return sum(fmt.Sprint(v))
	}
}

func requireReference(t require.TestingT, doc []byte) {
	var value any
	decodeErr := json.Unmarshal(doc, &value)
	got, err := V1(doc)
	if decodeErr != nil {
		require.Error(t, err, "%q", doc)
		return
	}
	require.NoError(t, err, "%q", doc)
	require.Equal(t, reference(value, ""), got, "%q", doc)
}

func TestV1EqualsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requireReference(t, []byte(drawText(t, drawValue(t, 4))))
	})
}

func FuzzV1(f *testing.F) {
	for _, v := range lines[struct{ Object json.RawMessage }](f, "testdata/checksum-v1.jsonl") {
		f.Add([]byte(v.Object))
	}
	f.Add([]byte(`{"status":1,"status":{"conditions":1,"":{}},"statu\u0073.conditions":{},"\ud800":"\ufffd"}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if bytes.Count(doc, []byte("["))+bytes.Count(doc, []byte("{")) < 1000 {
			requireReference(t, doc)
		}
	})
}
