// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
)

var testCluster = synchronizer.ClusterID{Account: "11111111-2222", Cluster: "prod, eu <1>"}

func testMessage(event synchronizer.Event) synchronizer.Message {
	m := synchronizer.Message{
		Event: event, Depth: 2, MsgID: "0b1c", ClusterID: testCluster,
		Kind: synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}, Namespace: "default", Name: "web",
		ResourceVersion: 7, Stamp: synchronizer.Stamp{Source: "connection-1", Seq: 3},
	}
	switch event {
	case synchronizer.EventPut, synchronizer.EventPatch:
		m.Checksum, m.Body = strings.Repeat("a", 64), []byte(`{"n":1.0,"x":"<&>"} `)
	case synchronizer.EventVerify:
		m.Checksum = strings.Repeat("b", 64)
	case synchronizer.EventGet:
		m.Body = []byte("{}")
	}
	return m
}

// TestGolden fixes what a record of each encoding looks like.
func TestGolden(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 5, time.FixedZone("", 3600))
	m := testMessage(synchronizer.EventPut)
	field := Encoder{Encoding: Field, Now: func() time.Time { return at }}
	r, err := field.Encode(&m, Extra{Link: "v1", UID: "u-1", ResourceVersion: "0x9"})
	require.NoError(t, err)
	require.Equal(t, "11111111-2222/prod, eu <1>", r.Key)
	common := []synchronizer.Property{
		{Name: "timestamp", Value: "2026-11-29T11:00:00.000000005Z"},
		{Name: "event", Value: "PutObject"},
		{Name: "account", Value: "11111111-2222"},
		{Name: "cluster", Value: "prod, eu <1>"},
		{Name: "group", Value: "apps"},
		{Name: "version", Value: "v1"},
		{Name: "resource", Value: "deployments"},
		{Name: "name", Value: "web"},
		{Name: "namespace", Value: "default"},
		{Name: "resourceVersion", Value: "7"},
		{Name: "x-uid", Value: "u-1"},
		{Name: "x-resource-version", Value: "0x9"},
		{Name: "x-link", Value: "v1"},
		{Name: "x-source", Value: "connection-1"},
		{Name: "x-seq", Value: "3"},
	}
	require.Equal(t, common, r.Properties)
	require.Equal(t, `{"checksum":"`+strings.Repeat("a", 64)+`","cluster":"prod, eu \u003c1\u003e","account":"11111111-2222",`+
		`"depth":2,"kind":"apps/v1/deployments","msgId":"0b1c","name":"web","namespace":"default",`+
		`"patch":"eyJuIjoxLjAsIngiOiI8Jj4ifSA=","resourceVersion":0}`, string(r.Payload))

	compact := Encoder{Encoding: Compact, Producer: Server, Now: field.Now}
	r, err = compact.Encode(&m, Extra{})
	require.NoError(t, err)
	require.Equal(t, m.Body, r.Payload)
	require.Equal(t, append(append([]synchronizer.Property{}, common[:10]...), []synchronizer.Property{
		{Name: "x-encoding", Value: "compact"},
		{Name: "x-depth", Value: "2"},
		{Name: "x-msg-id", Value: "0b1c"},
		{Name: "x-checksum", Value: strings.Repeat("a", 64)},
		{Name: "x-producer-source", Value: "synchronizer-server"},
		{Name: "x-source", Value: "connection-1"},
		{Name: "x-seq", Value: "3"},
	}...), r.Properties)

	m = testMessage(synchronizer.EventDelete)
	r, err = compact.Encode(&m, Extra{})
	require.NoError(t, err)
	require.Empty(t, r.Payload)
}

func TestEncodeRefuses(t *testing.T) {
	for name, change := range map[string]func(*synchronizer.Message){
		"kind without resource": func(m *synchronizer.Message) { m.Kind.Resource = "" },
		"kind with a slash":     func(m *synchronizer.Message) { m.Kind.Resource = "pods/log" },
		"no account":            func(m *synchronizer.Message) { m.Account = "" },
		"account with a slash":  func(m *synchronizer.Message) { m.Account = "a/b" },
		"no cluster":            func(m *synchronizer.Message) { m.Cluster = "" },
		"cluster is not UTF-8":  func(m *synchronizer.Message) { m.Cluster = "\xff" },
		"name is not UTF-8":     func(m *synchronizer.Message) { m.Name = "\xff" },
		"event unknown":         func(m *synchronizer.Message) { m.Event = synchronizer.EventUnknown },
		"event of the link":     func(m *synchronizer.Message) { m.Event = synchronizer.EventPing },
		"clients missing":       func(m *synchronizer.Message) { m.Event = synchronizer.EventConnectedClients },
		"kind in reconciliation": func(m *synchronizer.Message) {
			m.Event = synchronizer.EventReconciliation
			m.Known = map[synchronizer.Kind][]synchronizer.KnownObject{{Resource: "pods"}: nil}
		},
		"request without cluster": func(m *synchronizer.Message) {
			m.Event, m.Requests = synchronizer.EventReconciliationBatch, make([]synchronizer.Message, 1)
		},
	} {
		for _, encoding := range []Encoding{Field, Compact} {
			t.Run(name, func(t *testing.T) {
				m := testMessage(synchronizer.EventPut)
				change(&m)
				_, err := (&Encoder{Encoding: encoding}).Encode(&m, Extra{})
				require.ErrorIs(t, err, synchronizer.ErrInvalid)
			})
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	property := func(name, value string) func(*synchronizer.Record) {
		return func(r *synchronizer.Record) {
			for i := range r.Properties {
				if r.Properties[i].Name == name {
					r.Properties[i].Value = value
					return
				}
			}
			r.Properties = append(r.Properties, synchronizer.Property{Name: name, Value: value})
		}
	}
	payload := func(s string) func(*synchronizer.Record) {
		return func(r *synchronizer.Record) { r.Payload = []byte(s) }
	}
	for name, c := range map[string]struct {
		encoding Encoding
		change   func(*synchronizer.Record)
		reason   synchronizer.DropReason
	}{
		"account of another":    {Field, property(PropertyAccount, "x"), synchronizer.DropForeign},
		"cluster of another":    {Field, property(PropertyCluster, "x"), synchronizer.DropForeign},
		"no cluster":            {Field, property(PropertyCluster, ""), synchronizer.DropMalformed},
		"no cluster, compact":   {Compact, property(PropertyCluster, ""), synchronizer.DropMalformed},
		"seq":                   {Field, property(PropertySeq, "-1"), synchronizer.DropMalformed},
		"encoding":              {Field, property(PropertyEncoding, "other"), synchronizer.DropMalformed},
		"kind, compact":         {Compact, property(PropertyResource, ""), synchronizer.DropMalformed},
		"depth, compact":        {Compact, property(PropertyDepth, "deep"), synchronizer.DropMalformed},
		"negative depth":        {Compact, property(PropertyDepth, "-1"), synchronizer.DropMalformed},
		"kind":                  {Field, payload(`{"kind":"pods"}`), synchronizer.DropMalformed},
		"kind null":             {Field, payload(`{"kind":null}`), synchronizer.DropMalformed},
		"not JSON":              {Field, payload(`{`), synchronizer.DropMalformed},
		"empty":                 {Field, payload(``), synchronizer.DropMalformed},
		"not base64":            {Field, payload(`{"kind":"/v1/pods","patch":"?"}`), synchronizer.DropMalformed},
		"name of another type":  {Field, payload(`{"kind":"/v1/pods","name":1}`), synchronizer.DropMalformed},
		"depth of another type": {Field, payload(`{"kind":"/v1/pods","depth":"1"}`), synchronizer.DropMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			m := testMessage(synchronizer.EventPut)
			r, err := (&Encoder{Encoding: c.encoding}).Encode(&m, Extra{})
			require.NoError(t, err)
			c.change(&r)
			_, err = Decode(&r)
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
			require.Equal(t, c.reason, Reason(err))
		})
	}
}

func TestDecodeIsLenient(t *testing.T) {
	r := synchronizer.Record{
		Properties: []synchronizer.Property{
			{Name: "event", Value: "PutObject"},
			{Name: "account", Value: "a"},
			{Name: "cluster", Value: "c"},
			{Name: "resourceVersion", Value: "not a number"},
			{Name: "later", Value: "\r\n"},
		},
		Payload: []byte(`{"Kind":"/v1/pods","resourceVersion":"8","patch":null,"later":[],"name":"x"}`),
	}
	m, err := Decode(&r)
	require.NoError(t, err)
	require.Equal(t, synchronizer.Message{
		Event: synchronizer.EventPut, ClusterID: synchronizer.ClusterID{Account: "a", Cluster: "c"},
		Kind: synchronizer.Kind{Version: "v1", Resource: "pods"}, Name: "x",
	}, m)
}

// TestRoundTrip: what was encoded reads back the same, in both encodings.
func TestRoundTrip(t *testing.T) {
	part := rapid.StringMatching(`[^/]{1,20}`)
	rapid.Check(t, func(t *rapid.T) {
		id := synchronizer.ClusterID{Account: part.Draw(t, "account"), Cluster: rapid.StringN(1, 20, -1).Draw(t, "cluster")}
		m := synchronizer.Message{
			Event: rapid.SampledFrom([]synchronizer.Event{
				synchronizer.EventVerify, synchronizer.EventPut, synchronizer.EventPatch, synchronizer.EventDelete, synchronizer.EventGet,
			}).Draw(t, "event"),
			Depth: rapid.IntRange(0, 9).Draw(t, "depth"), MsgID: rapid.String().Draw(t, "id"), ClusterID: id,
			Kind:      synchronizer.Kind{Group: rapid.StringMatching(`[^/]{0,9}`).Draw(t, "group"), Version: part.Draw(t, "version"), Resource: part.Draw(t, "resource")},
			Namespace: rapid.String().Draw(t, "namespace"), Name: rapid.String().Draw(t, "name"),
			ResourceVersion: rapid.Int64().Draw(t, "version number"),
			Stamp:           synchronizer.Stamp{Source: rapid.String().Draw(t, "source"), Seq: rapid.Uint64().Draw(t, "seq")},
		}
		switch m.Event {
		case synchronizer.EventPut, synchronizer.EventPatch, synchronizer.EventGet:
			m.Body = rapid.SliceOfN(rapid.Byte(), 1, 99).Draw(t, "body")
		}
		switch m.Event {
		case synchronizer.EventPut, synchronizer.EventPatch, synchronizer.EventVerify:
			m.Checksum = rapid.StringMatching(`([0-9a-f]{64})?`).Draw(t, "checksum")
		}
		for _, encoding := range []Encoding{Field, Compact} {
			encoder := Encoder{Encoding: encoding, Producer: rapid.SampledFrom([]Producer{Backend, Server}).Draw(t, "producer")}
			r, err := encoder.Encode(&m, Extra{Link: "v1", UID: "u"})
			require.NoError(t, err)
			require.Equal(t, encoder.Producer == Server, FromServer(&r))
			got, err := Decode(&r)
			require.NoError(t, err)
			require.Equal(t, m, got)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, line := range readRecorded(f) {
		r := line.record()
		f.Add(r.Property(PropertyEvent), r.Property(PropertyAccount), r.Property(PropertyCluster), r.Property(PropertyEncoding), []byte(r.Payload))
	}
	f.Add("PutObject", "a", "c", "compact", []byte("{}"))
	f.Fuzz(func(t *testing.T, event, account, cluster, encoding string, payload []byte) {
		r := synchronizer.Record{Key: "k", Payload: payload, Properties: []synchronizer.Property{
			{Name: PropertyEvent, Value: event},
			{Name: PropertyAccount, Value: account},
			{Name: PropertyCluster, Value: cluster},
			{Name: PropertyEncoding, Value: encoding},
			{Name: PropertyVersion, Value: "v1"},
			{Name: PropertyResource, Value: "pods"},
		}}
		m, err := Decode(&r)
		if err != nil {
			require.ErrorIs(t, err, synchronizer.ErrInvalid)
			return
		}
		if m.Event == synchronizer.EventUnknown || encoding != encodingCompact || !m.Event.AboutObject() {
			return
		}
		require.True(t, bytes.Equal(payload, m.Body))
	})
}

func BenchmarkCompact(b *testing.B) {
	m := testMessage(synchronizer.EventPut)
	m.Body = bytes.Repeat([]byte("x"), 2048)
	encoder := Encoder{Encoding: Compact, Producer: Server}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = encoder.Encode(&m, Extra{Link: "v1", UID: "3898130c-3853-4b61-b048-f6ea247dee5a", ResourceVersion: "208"})
		}
	})
	r, err := encoder.Encode(&m, Extra{})
	require.NoError(b, err)
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = Decode(&r)
		}
	})
}

func BenchmarkField(b *testing.B) {
	m := testMessage(synchronizer.EventPut)
	m.Body = bytes.Repeat([]byte("x"), 2048)
	encoder := Encoder{Encoding: Field, Producer: Server}
	r, err := encoder.Encode(&m, Extra{})
	require.NoError(b, err)
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			_, _ = encoder.Encode(&m, Extra{})
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			_, _ = Decode(&r)
		}
	})
}

// What is wrong with one kind or one request is not held against the others.
func TestDecodeInPart(t *testing.T) {
	id := synchronizer.ClusterID{Account: "a", Cluster: "c"}
	pods := synchronizer.Kind{Version: "v1", Resource: "pods"}
	for name, c := range map[string]struct {
		event, payload string
		left           []string
		want           synchronizer.Message
	}{
		"kinds": {
			"ReconciliationRequest", `{"account":"a","cluster":"c","serverInitiated":true,"kindToObject":{"pods":[{"name":"x"}],"/v1/pods":[{"name":"y","resourceVersion":3}]}}`,
			[]string{`reading the list of a kind: invalid: kind "pods"`},
			synchronizer.Message{
				Event: synchronizer.EventReconciliation, ClusterID: id, ServerInitiated: true,
				Known: map[synchronizer.Kind][]synchronizer.KnownObject{pods: {{Name: "y", ResourceVersion: 3}}},
			},
		},
		"requests": {
			"ReconciliationRequestBatch", `{"depth":1,"requests":[{"account":"a/b","cluster":"c"},{"account":"a","cluster":"c","msgId":"m"},{"account":"a"}]}`,
			[]string{"reading request 0 of ReconciliationRequestBatch", "reading request 2 of ReconciliationRequestBatch"},
			synchronizer.Message{
				Event: synchronizer.EventReconciliationBatch, Depth: 1, ClusterID: id,
				Requests: []synchronizer.Message{{Event: synchronizer.EventReconciliation, ClusterID: id, MsgID: "m"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Decode(&synchronizer.Record{Payload: []byte(c.payload), Properties: []synchronizer.Property{
				{Name: PropertyEvent, Value: c.event}, {Name: PropertyAccount, Value: "a"}, {Name: PropertyCluster, Value: "c"},
			}})
			require.ErrorIs(t, err, synchronizer.ErrInvalid, "for whoever does not know of parts")
			var partly *PartialError
			require.ErrorAs(t, err, &partly)
			require.Len(t, partly.Left, len(c.left))
			for i, text := range c.left {
				require.ErrorContains(t, partly.Left[i], text)
			}
			require.Equal(t, c.want, m)
		})
	}
}
