// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/rawjson"
)

const (
	builtinList = `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"77","continue":"t\u0041"},"items":[` +
		`{"metadata":{"name":"a","namespace":"n","uid":"u1","resourceVersion":"5"},"data":{"k":"q\"}]\\"}},` +
		`{"metadata":{"name":"b","namespace":"n","uid":"u2","resourceVersion":"6"},"n":1e3}]}` + "\n"
	customList = `{"apiVersion":"x.io/v1","items":[{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"5"}}],` +
		`"kind":"ThingList","metadata":{"continue":"","resourceVersion":"77"}}`
)

func testItems(limit int) *itemReader {
	return &itemReader{limit: limit, typeMeta: func() (typeMeta, error) { return typeMeta{"v1", "ConfigMap"}, nil }}
}

func decodeList(src io.Reader, buffer, limit int) (p page, bodies []string, err error) {
	p, err = readPage(newScanner(src, buffer), testItems(limit), func(o synchronizer.Object) error {
		body := string(o.Body)
		if o.Err != nil {
			body = "unreadable " + o.Name
		}
		bodies = append(bodies, body)
		return nil
	})
	return p, bodies, err
}

func TestReadPage(t *testing.T) {
	for _, buffer := range []int{1, 7, 64, 4096} {
		p, bodies, err := decodeList(iotest.OneByteReader(strings.NewReader(builtinList)), buffer, 1000)
		require.NoError(t, err)
		require.Equal(t, "77", p.resourceVersion)
		require.Equal(t, "tA", p.next)
		require.Equal(t, []string{
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u1","resourceVersion":"5"},"data":{"k":"q\"}]\\"}}`,
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","namespace":"n","uid":"u2","resourceVersion":"6"},"n":1e3}`,
		}, bodies)

		p, bodies, err = decodeList(strings.NewReader(customList), buffer, 1000)
		require.NoError(t, err)
		require.Empty(t, p.next)
		require.Equal(t, []string{`{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"5"}}`}, bodies)
	}
}

func TestReadPageIsNeverShort(t *testing.T) {
	for _, list := range []string{builtinList, customList} {
		for cut := range strings.TrimRight(list, "\n") {
			_, _, err := decodeList(strings.NewReader(list[:cut]), 16, 1000)
			require.Error(t, err, "cut at byte %d", cut)
			_, _, err = decodeList(io.MultiReader(strings.NewReader(list[:cut]), iotest.ErrReader(io.ErrUnexpectedEOF)), 16, 1000)
			require.Error(t, err, "cut at byte %d", cut)
		}
		_, _, err := decodeList(io.MultiReader(strings.NewReader(list), iotest.ErrReader(io.ErrUnexpectedEOF)), 16, 1000)
		require.Error(t, err, "cut behind the last brace, within the response")
	}
}

func TestReadPageRefuses(t *testing.T) {
	for _, list := range []string{
		``, `null`, `[]`, `{}`, `{"metadata":{"resourceVersion":"1"}}`, `{"items":[]}`,
		`{"items":[],"metadata":{"resourceVersion":1}}`,
		`{"items":{},"metadata":{"resourceVersion":"1"}}`,
		`{"items":[],"items":[],"metadata":{"resourceVersion":"1"}}`,
		`{"items":[],"metadata":{"resourceVersion":"1"}}x`,
		`{"items":[],"metadata":{"resourceVersion":"1"}}{}`,
		`{"items":[,],"metadata":{"resourceVersion":"1"}}`,
		`{"items":[{"metadata":{"name":"a"}} {"metadata":{"name":"b"}}],"metadata":{"resourceVersion":"1"}}`,
		`{"items":[{"metadata":{"name":"a"}},],"metadata":{"resourceVersion":"1"}}`,
		`{"items":[{"metadata":{}}],"metadata":{"resourceVersion":"1"}}`,
		`{"items":[null],"metadata":{"resourceVersion":"1"}}`,
		`{"items":[7],"metadata":{"resourceVersion":"1"}}`,
		`{"items":[],"metadata":{"resourceVersion":"1","continue":7}}`,
		`{"items":[] "metadata":{"resourceVersion":"1"}}`,
		`{"items":[],"metadata":{"resourceVersion":"1"},}`,
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":410}`,
	} {
		_, _, err := decodeList(strings.NewReader(list), 16, 1000)
		require.Error(t, err, list)
	}
	p, bodies, err := decodeList(strings.NewReader(`{"items":null,"metadata":{"resourceVersion":"1"}}`), 16, 1000)
	require.NoError(t, err)
	require.Empty(t, bodies)
	require.Equal(t, "1", p.resourceVersion)
}

func TestUnreadableItemsArePresent(t *testing.T) {
	deep := strings.Repeat("[", rawjson.MaxDepth+1) + strings.Repeat("]", rawjson.MaxDepth+1)
	list := `{"items":[{"metadata":{"name":"large"},"data":"` + strings.Repeat("x", 20000) + `"},` +
		`{"metadata":{"name":"deep"},"data":` + deep + `},` +
		`{"metadata":{"name":"odd"},"data":01},` +
		`{"metadata":{"name":"fine"}}],"metadata":{"resourceVersion":"1"}}`
	_, bodies, err := decodeList(strings.NewReader(list), 16, 10000)
	require.NoError(t, err)
	require.Equal(t, []string{
		"unreadable large", "unreadable deep", "unreadable odd",
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"fine"}}`,
	}, bodies)

	_, _, err = decodeList(strings.NewReader(`{"items":[{"data":"`+strings.Repeat("x", 20000)+`","metadata":{"name":"a"}}],"metadata":{"resourceVersion":"1"}}`), 16, 10000)
	require.ErrorIs(t, err, synchronizer.ErrTooLarge, "an item whose identity was not seen")
}

func decodeWatch(src io.Reader, buffer int) (events []string, err error) {
	s, items := newScanner(src, buffer), testItems(1000)
	for {
		err := readFrame(s, items, func(string) {}, func(e synchronizer.WatchEvent) error {
			events = append(events, fmt.Sprintf("%d %s %s %s", e.Type, e.Object.Name, e.Object.ResourceVersion, e.Object.Body))
			return nil
		})
		if err != nil {
			return events, err
		}
	}
}

const watchFrames = `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"5"}}}` + "\n" +
	`{"object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"6"}},"type":"MODIFIED"}` + "\n" +
	`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}` + "\n" +
	`{"type":"LATER","object":{}}` + "\n" +
	`{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}` + "\n"

func TestReadFrame(t *testing.T) {
	for _, buffer := range []int{1, 50, 4096} {
		events, err := decodeWatch(iotest.HalfReader(strings.NewReader(watchFrames)), buffer)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, []string{
			`1 a 5 {"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"5"}}`,
			`2 a 6 {"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"6"}}`,
			`4  7 `,
			`3 a 8 {"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"8"}}`,
		}, events)
	}
	for cut := range watchFrames {
		_, err := decodeWatch(strings.NewReader(watchFrames[:cut]), 16)
		between := cut == 0 || watchFrames[cut] == '\n' || watchFrames[cut-1] == '\n'
		require.Equal(t, between, err == io.EOF, "cut at byte %d: %v", cut, err)
	}
	for _, frame := range []string{`x`, `{}`, `{"type":"ADDED"}`, `{"type":"ADDED","object":7}`, `{"type":"ADDED","object":{}}`, `{"type":"BOOKMARK","object":{}}`, `{"type":7,"object":{}}`, `{"type":"ERROR","object":[]}`} {
		_, err := decodeWatch(strings.NewReader(frame), 16)
		require.Error(t, err)
		require.NotErrorIs(t, err, io.EOF, frame)
	}
}

// chunks reads in pieces of random sizes.
type chunks struct {
	src    io.Reader
	random *rand.Rand
}

func (c *chunks) Read(p []byte) (int, error) {
	return c.src.Read(p[:min(len(p), 1+c.random.IntN(40))])
}

func FuzzReadPage(f *testing.F) {
	f.Add([]byte(builtinList), uint64(1))
	f.Add([]byte(customList), uint64(2))
	f.Add([]byte(`{"items":[{"metadata":{"name":"a\\"}},{"metadata":{"name":"b"},"x":[{}]}],"metadata":{"resourceVersion":"1"}}`), uint64(3))
	f.Fuzz(func(t *testing.T, doc []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		p, bodies, err := decodeList(&chunks{bytes.NewReader(doc), random}, 1+random.IntN(64), 300)
		q, again, err2 := decodeList(bytes.NewReader(doc), 64, 300)
		require.Equal(t, err == nil, err2 == nil, "the size of pieces matters: %v, %v", err, err2)
		require.Equal(t, bodies, again)
		require.Equal(t, p, q)
		if err != nil {
			return
		}
		// What was taken as complete has the same number of items for a full decoder.
		var list map[string]json.RawMessage
		var items []json.RawMessage
		if json.Unmarshal(doc, &list) == nil && json.Unmarshal(list["items"], &items) == nil {
			require.Len(t, items, p.items)
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte(watchFrames), uint64(1))
	f.Add([]byte(`{"type":"ERROR","object":{"kind":"Status","code":410}}`), uint64(2))
	f.Fuzz(func(t *testing.T, doc []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		events, err := decodeWatch(&chunks{bytes.NewReader(doc), random}, 1+random.IntN(64))
		again, err2 := decodeWatch(bytes.NewReader(doc), 64)
		require.Equal(t, err == io.EOF, err2 == io.EOF)
		require.Equal(t, events, again)
	})
}
