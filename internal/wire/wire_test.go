// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

type recorded struct {
	Scenario string          `json:"scenario"`
	Dir      string          `json:"dir"`
	Type     string          `json:"type"`
	Frame    json.RawMessage `json:"frame"`
	Text     *string         `json:"text"`
}

func readRecorded(t testing.TB) []recorded {
	file, err := os.Open("testdata/frames-v1.jsonl")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var all []recorded
	for lines := json.NewDecoder(bufio.NewReader(file)); lines.More(); {
		var r recorded
		require.NoError(t, lines.Decode(&r))
		if r.Frame != nil || r.Text != nil && strings.HasPrefix(r.Type, "Message") {
			all = append(all, r)
		}
	}
	return all
}

// TestRecordedFramesRoundTrip parses everything that real peers and the
// recording's tests sent. What real peers wrote must come out again byte for
// byte (the recording took off escapes of <, > and &, so they are put back).
func TestRecordedFramesRoundTrip(t *testing.T) {
	// What servers and clients in the field cannot use either.
	malformed := map[string]int{}
	exact := 0
	for _, r := range readRecorded(t) {
		if r.Text != nil {
			_, err := ParseV1([]byte(*r.Text), Limits{})
			require.ErrorIs(t, err, ErrMalformed, *r.Text)
			continue
		}
		m, err := ParseV1(r.Frame, Limits{})
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
			require.True(t, strings.HasPrefix(r.Dir, "test->"), "%s %s", r.Scenario, err)
			malformed[strings.TrimPrefix(err.Error(), "invalid frame: ")]++
			continue
		}
		if m.Event == synchronizer.EventUnknown {
			require.True(t, strings.HasPrefix(r.Dir, "test->"), r.Scenario)
			continue
		}
		if strings.Contains(r.Dir, "test->") {
			continue // their members have another order, and too many
		}
		again, err := AppendV1(nil, &m)
		require.NoError(t, err)
		require.Equal(t, string(escapeHTML(r.Frame)), string(again), r.Scenario)
		exact++
	}
	require.Equal(t, map[string]int{
		"Event is missing or null": 3, // twice by a client, once to a client
		"Kind is missing or null":  4, // NewChecksum, GetObject, two batches
		"Items is not an object":   1,
	}, malformed)
	require.Greater(t, exact, 180)
}

func escapeHTML(raw []byte) []byte {
	var b bytes.Buffer
	json.HTMLEscape(&b, raw)
	return b.Bytes()
}

func TestParse(t *testing.T) {
	kind := synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
	const k = `"Kind":{"Group":"apps","Version":"v1","Resource":"deployments"}`
	put := synchronizer.Message{Event: synchronizer.EventPut, Kind: kind, Body: []byte("{}")}
	for name, test := range map[string]struct {
		frame string
		want  synchronizer.Message
		err   string
	}{
		"smallest":                    {frame: `{"Event":6,` + k + `,"Object":"{}"}`, want: put},
		"keys in any case":            {frame: `{"event":6,"KIND":{"GROUP":"apps","version":"v1","rEsource":"deployments"},"oBject":"{}"}`, want: put},
		"escaped key":                 {frame: `{"\u0045vent":6,` + k + `,"Object":"{}"}`, want: put},
		"white space":                 {frame: " {\n\"Event\" : 6 , " + k + `,"Object" : "{}" } `, want: put},
		"last duplicate counts":       {frame: `{"Event":0,` + k + `,"Object":"x","object":"{}","event":6}`, want: put},
		"null members":                {frame: `{"Depth":null,"Event":6,"MsgId":null,"Name":null,"ResourceVersion":null,"Checksum":null,` + k + `,"Object":"{}"}`, want: put},
		"members of other events":     {frame: `{"Event":6,"Patch":7,"Items":[],"BaseObject":{},` + k + `,"Object":"{}"}`, want: put},
		"unknown keys":                {frame: `{"Event":6,"Extra":{"Event":3},` + k + `,"Object":"{}","AdditionalProperties":{"y":2}}`, want: put},
		"no body":                     {frame: `{"Event":6,` + k + `}`, want: synchronizer.Message{Event: synchronizer.EventPut, Kind: kind}},
		"resource version":            {frame: `{"Event":2,"ResourceVersion":9223372036854775807,` + k + `}`, want: synchronizer.Message{Event: synchronizer.EventDelete, Kind: kind, ResourceVersion: 1<<63 - 1}},
		"resource version too large":  {frame: `{"Event":2,"ResourceVersion":9223372036854775808,` + k + `}`, err: "ResourceVersion"},
		"resource version a fraction": {frame: `{"Event":2,"ResourceVersion":1.0,` + k + `}`, err: "ResourceVersion"},
		"resource version a text":     {frame: `{"Event":2,"ResourceVersion":"1",` + k + `}`, err: "ResourceVersion"},
		"ping with anything":          {frame: `{"Event":7,"Kind":3,"Object":3}`, want: synchronizer.Message{Event: synchronizer.EventPing}},
		"unknown event":               {frame: `{"Event":99,"Depth":2,"MsgId":"a","Name":5,` + k + `}`, want: synchronizer.Message{Depth: 2, MsgID: "a", Kind: kind}},
		"deprecated 1":                {frame: `{"Event":1,` + k + `,"Object":"{}"}`, want: synchronizer.Message{Kind: kind}},
		"deprecated 3":                {frame: `{"Event":3,` + k + `,"Object":"{}"}`, want: synchronizer.Message{Kind: kind}},
		"negative event":              {frame: `{"Event":-6}`, want: synchronizer.Message{}},
		"event a text":                {frame: `{"Event":"6",` + k + `}`, err: "Event"},
		"event a fraction":            {frame: `{"Event":6.5,` + k + `}`, err: "Event"},
		"event null":                  {frame: `{"Event":null,` + k + `}`, err: "Event is missing or null"},
		"event missing":               {frame: `{` + k + `}`, err: "Event is missing or null"},
		"kind null":                   {frame: `{"Event":4,"Kind":null}`, err: "Kind is missing or null"},
		"kind a text":                 {frame: `{"Event":4,"Kind":"apps/v1/deployments"}`, err: "Kind is not an object"},
		"kind with a slash":           {frame: `{"Event":4,"Kind":{"Version":"v1","Resource":"a/b"}}`, err: "slash"},
		"kind without resource":       {frame: `{"Event":4,"Kind":{"Version":"v1"}}`, err: "no version or resource"},
		"body not a string":           {frame: `{"Event":6,` + k + `,"Object":{}}`, err: "Object is not a string"},
		"negative depth":              {frame: `{"Event":6,"Depth":-1,` + k + `}`, err: "Depth"},
		"huge depth":                  {frame: `{"Event":6,"Depth":1e9,` + k + `}`, err: "Depth"},
		"trailing":                    {frame: `{"Event":7}{}`, err: "trailing"},
		"cut":                         {frame: `{"Event":7`, err: "unexpected end"},
		"array":                       {frame: `[]`, err: "not a JSON object"},
		"nothing":                     {frame: ``, err: "not a JSON object"},
		"deep":                        {frame: `{"x":` + strings.Repeat("[", 1<<16), err: "deeper"},
		"batch without items":         {frame: `{"Event":8,` + k + `}`, err: "Items"},
		"batch with a bad item":       {frame: `{"Event":8,` + k + `,"Items":{"NewChecksum":[{` + k + `},{"Kind":null}]}}`, err: "item 1 of NewChecksum: Kind"},
		"empty batch":                 {frame: `{"Event":8,` + k + `,"Items":{}}`, want: synchronizer.Message{Event: synchronizer.EventBatch, Kind: kind}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ParseV1([]byte(test.frame), Limits{})
			if test.err != "" {
				require.ErrorIs(t, err, ErrMalformed)
				require.ErrorContains(t, err, test.err)
				require.Less(t, len(err.Error()), 200)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, m)
		})
	}
}

// TestBatchOrder checks the order in which servers in the field publish items.
func TestBatchOrder(t *testing.T) {
	kind := synchronizer.Kind{Version: "v1", Resource: "pods"}
	item := func(e synchronizer.Event, name string) synchronizer.Message {
		m := synchronizer.Message{Event: e, Kind: kind, Name: name}
		if e == synchronizer.EventPut {
			m.Body = []byte(`{}`)
		}
		return m
	}
	sorted := []synchronizer.Message{
		item(synchronizer.EventGet, "1"), item(synchronizer.EventGet, "2"), item(synchronizer.EventVerify, "3"),
		item(synchronizer.EventDelete, "4"), item(synchronizer.EventPatch, "5"), item(synchronizer.EventPut, "6"),
	}
	m := synchronizer.Message{Event: synchronizer.EventBatch, Depth: 2, MsgID: "m", Kind: kind, Items: []synchronizer.Message{
		sorted[5], sorted[0], sorted[3], sorted[4], sorted[1], sorted[2],
	}}
	frame, err := AppendV1(nil, &m)
	require.NoError(t, err)
	got, err := ParseV1(frame, Limits{})
	require.NoError(t, err)
	m.Items = sorted
	require.Equal(t, m, got)

	_, err = ParseV1(frame, Limits{MaxItems: 5})
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, "more than 5 items")
}

func TestAppendRefuses(t *testing.T) {
	kind := synchronizer.Kind{Version: "v1", Resource: "pods"}
	for name, m := range map[string]synchronizer.Message{
		"event of the queue": {Event: synchronizer.EventServerConnected},
		"reconciliation":     {Event: synchronizer.EventReconciliation},
		"no kind":            {Event: synchronizer.EventGet},
		"slash in kind":      {Event: synchronizer.EventGet, Kind: synchronizer.Kind{Version: "v1", Resource: "a/b"}},
		"batch of pings":     {Event: synchronizer.EventBatch, Kind: kind, Items: []synchronizer.Message{{Event: synchronizer.EventPing}}},
		"item without kind":  {Event: synchronizer.EventBatch, Kind: kind, Items: []synchronizer.Message{{Event: synchronizer.EventGet}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := AppendV1([]byte("before"), &m)
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
			require.Equal(t, "before", string(got))
		})
	}
}

func TestNames(t *testing.T) {
	put := sample(64 << 10)
	frame, err := AppendV1(nil, &put)
	require.NoError(t, err)
	require.Equal(t, "apps/v1/deployments default/web", Name(&put))
	require.Equal(t, "apps/v1/deployments default/web", PeekName(frame[:1024]))
	require.Equal(t, "apps/v1/deployments default/web", PeekName(frame))
	require.Equal(t, "a frame without a name", PeekName([]byte("hello")))
	require.Equal(t, "a frame without a name", PeekName(nil))
	require.Equal(t, "/v1/pods (reconciliation batch)",
		PeekName([]byte(`{"Depth":2,"Event":8,"Kind":{"Group":"","Version":"v1","Resource":"pods"},"BatchType":"reconciliation","Items":{"Pu`)))
	require.LessOrEqual(t, len(PeekName([]byte(`{"Kind":{"Version":"v1","Resource":"pods"},"Name":"`+strings.Repeat("x", 1<<16)+`","`))), 300)
}

// TestAgainstEncodingJSON compares every written frame with what encoding/json
// writes for the same values, and reads it back.
func TestAgainstEncodingJSON(t *testing.T) {
	type kind struct {
		Group, Version, Resource string
		AdditionalProperties     *int
	}
	type putObject struct {
		Checksum        string
		ResourceVersion int64
		Depth           int
		Event           int
		Kind            *kind
		MsgId           string //nolint:revive // the name on the wire
		Name, Namespace string
		Object          string

		AdditionalProperties *int
	}
	rapid.Check(t, func(t *rapid.T) {
		m := synchronizer.Message{
			Event: synchronizer.EventPut, Depth: rapid.IntRange(0, 9).Draw(t, "depth"),
			Kind:  synchronizer.Kind{Group: rapid.StringMatching(`[^/]*`).Draw(t, "group"), Version: "v1", Resource: "pods"},
			MsgID: rapid.String().Draw(t, "id"), Name: rapid.String().Draw(t, "name"), Namespace: rapid.String().Draw(t, "namespace"),
			ResourceVersion: rapid.Int64().Draw(t, "version"), Checksum: rapid.String().Draw(t, "checksum"),
			Body: []byte(rapid.String().Draw(t, "body")),
		}
		want, err := json.Marshal(putObject{
			Checksum: m.Checksum, ResourceVersion: m.ResourceVersion, Depth: m.Depth, Event: 6,
			Kind: &kind{Group: m.Kind.Group, Version: m.Kind.Version, Resource: m.Kind.Resource}, MsgId: m.MsgID,
			Name: m.Name, Namespace: m.Namespace, Object: string(m.Body),
		})
		require.NoError(t, err)
		frame, err := AppendV1(nil, &m)
		require.NoError(t, err)
		require.Equal(t, string(want), string(frame))
		got, err := ParseV1(frame, Limits{})
		require.NoError(t, err)
		if len(m.Body) == 0 {
			m.Body = nil
		}
		require.Equal(t, m, got)
	})
}

func FuzzParse(f *testing.F) {
	for _, r := range readRecorded(f) {
		f.Add([]byte(r.Frame))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		PeekName(frame)
		m, err := ParseV1(frame, Limits{MaxItems: 100})
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			require.Equal(t, synchronizer.Message{}, m)
			return
		}
		if m.Event == synchronizer.EventUnknown {
			return
		}
		again, err := AppendV1(nil, &m)
		require.NoError(t, err)
		second, err := ParseV1(again, Limits{})
		require.NoError(t, err)
		require.Equal(t, m, second)
	})
}

func sample(size int) synchronizer.Message {
	var body strings.Builder
	body.WriteString(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},"list":[`)
	for body.Len() < size-40 {
		body.WriteString(`{"image":"nginx","name":"nginx","size":25},`)
	}
	body.WriteString(`null]}`)
	return synchronizer.Message{
		Event: synchronizer.EventPut, Depth: 1, MsgID: "743e19f4-37a8-49a8-abb0-f83d1f64700d", Namespace: "default", Name: "web",
		Kind:     synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"},
		Checksum: strings.Repeat("2b", 32), Body: []byte(body.String()),
	}
}

// typical is the recorded pod, whose body is filled up to 2.7 KB.
func typical(b *testing.B) synchronizer.Message {
	for _, r := range readRecorded(b) {
		m, err := ParseV1(r.Frame, Limits{})
		if err == nil && m.Event == synchronizer.EventPut && m.Kind.Resource == "pods" && len(m.Body) > 900 {
			for len(m.Body) < 2700 {
				m.Body = append(m.Body, m.Body[:900]...)
			}
			m.Body = m.Body[:2700]
			return m
		}
	}
	b.Fatal("no pod in the recording")
	return synchronizer.Message{}
}

func BenchmarkAppend(b *testing.B) {
	m := typical(b)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = AppendV1(dst[:0], &m); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(dst)))
}

func BenchmarkParse(b *testing.B) {
	m := typical(b)
	frame, err := AppendV1(nil, &m)
	require.NoError(b, err)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseV1(frame, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestBodyEscapes(t *testing.T) {
	for _, s := range []string{
		`""`, `"\\"`, `"\""`, `"a\\\"b\/c"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\n"`, `"\ud83d\u0041\ude00"`, `"x\ud83dx\ude00"`,
		`"\u003cb\u003e\n\t\b\f\r"`, "\"\xff\\\"\xfe\"", `"\n\"\u0041\""`, `"\ud83d\\ude00"`,
	} {
		var want string
		require.NoError(t, json.Unmarshal([]byte(s), &want))
		m, err := ParseV1([]byte(`{"Event":6,"Kind":{"Version":"v1","Resource":"pods"},"Object":`+s+`}`), Limits{})
		require.NoError(t, err)
		require.Equal(t, want, string(m.Body), s)
	}
}
