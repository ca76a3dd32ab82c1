// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// TestOrderOfChecks opens one door after another: every request fails at all
// doors behind its own as well, and only the first that is shut answers. None of
// them needs the body, which never comes.
func TestOrderOfChecks(t *testing.T) {
	w := open(t, nil)
	w.outlet.away.Store(true)
	w.api.token = func(token string) (string, error) {
		switch token {
		case "unknown":
			return `{"authenticated":false,"error":"invalid bearer token"}`, nil
		case "undecided":
			return "", errAPIServer
		}
		return valid, nil
	}
	allowed := false
	w.api.access = func(json.RawMessage) (string, error) { return fmt.Sprintf(`{"allowed":%t}`, allowed), nil }
	const body = "Content-Length: 4000000"
	for _, c := range []struct {
		name, method, path, token string
		status                    int
		header                    string // that must be there
	}{
		{"path before method", "GET", "/apis/v1/kubescape.io/v1", "", 400, ""},
		{"method before kind", "GET", "/apis/v1/kubescape.io/v1/unknown", "", 405, "Allow"},
		{"kind before authentication", "POST", "/apis/v1/kubescape.io/v1/unknown", "", 404, ""},
		{"no token", "POST", alertPath, "", 401, "Www-Authenticate"},
		{"unknown token", "POST", alertPath, "unknown", 401, "Www-Authenticate"},
		{"no decision", "POST", alertPath, "undecided", 503, "Retry-After"},
		{"not allowed", "POST", alertPath, "poor", 403, ""},
		{"backend away", "POST", alertPath, "good", 429, "Retry-After"},
	} {
		t.Run(c.name, func(t *testing.T) {
			allowed = c.token == "good"
			before := w.read.Load()
			text := c.method + " " + c.path + " HTTP/1.1\r\nHost: x\r\n" + body + "\r\n"
			if c.token != "" {
				text += "Authorization: Bearer " + c.token + "\r\n"
			}
			text += "\r\n"
			conn := w.dial(text)
			r := response(t, conn)
			require.Equal(t, c.status, r.StatusCode)
			require.True(t, r.Close, "Connection: close")
			if c.header != "" {
				require.NotEmpty(t, r.Header.Get(c.header))
			}
			if c.status == 429 {
				require.Equal(t, "60", r.Header.Get("Retry-After"))
			}
			require.Equal(t, int64(len(text)), w.read.Load()-before, "nothing but the head was read")
		})
	}
	require.Zero(t, w.outlet.entered.Load())
	require.NotContains(t, w.log.String(), "undecided", "no tokens in the log")
}

func TestRoutes(t *testing.T) {
	copies := newRoutes([]Resource{{Kind: kubescape("runtimealerts")}, {Kind: synchronizer.Kind{Version: "v1", Resource: "Pods"}}})
	both := newRoutes([]Resource{{Kind: kubescape("runtimealerts")}, {Kind: kubescape("networkstreams"), Patch: true}})
	for _, c := range []struct {
		table        routes
		method, path string
		status       int
	}{
		{copies, "POST", "/apis/v1/kubescape.io/v1/runtimealerts", 0},
		{copies, "POST", "/APIs/V1/Kubescape.IO/V1/RuntimeAlerts", 0},
		{copies, "POST", "/apis/v1//v1/pods", 0},
		{copies, "POST", "/", 400},
		{copies, "POST", "", 400},
		{copies, "POST", "/apis/v1/kubescape.io/v1", 400},
		{copies, "POST", "/apis/v1/kubescape.io/v1/runtimealerts/", 400},
		{copies, "POST", "/apis/v1/kubescape.io/v1/runtimealerts/a", 400},
		{copies, "POST", "x/apis/v1/kubescape.io/v1/runtimealerts", 400},
		{copies, "POST", "/api/v1/kubescape.io/v1/runtimealerts", 400},
		{copies, "POST", "/apis/v2/kubescape.io/v1/runtimealerts", 400},
		{copies, "POST", "/apis/v1/kubescape.io//runtimealerts", 400},
		{copies, "POST", "/apis/v1/kubescape.io/v1/", 400},
		{copies, "PUT", alertPath, 405},
		{both, "DELETE", alertPath, 405},
		{both, "PUT", alertPath, 404},
		{both, "POST", streamPath, 404},
		{both, "PUT", streamPath, 0},
		{both, "POST", "/apis/v1/other.io/v1/runtimealerts", 404},
		{both, "POST", "/apis/v1/kubescape.io/v2/runtimealerts", 404},
		{routes{}, "POST", alertPath, 405},
	} {
		_, refused := c.table.find(c.method, c.path)
		if c.status == 0 {
			require.Nil(t, refused, c.path)
			continue
		}
		require.NotNil(t, refused, c.path)
		require.Equal(t, c.status, refused.status, "%s %s", c.method, c.path)
	}
}

// recorded are the field's requests and what it said to the server for each.
type recorded struct {
	Scenario, Dir, Type, Method, Path, Body string
	Status                                  int
	Frame                                   struct {
		Checksum, Name, Namespace, Object, Patch string
		ResourceVersion                          int64
		Depth, Event                             int
		Kind                                     struct{ Group, Version, Resource string }
	}
}

// TestRecordedRequests gives the endpoint what was recorded in the field. It
// answers and says the same, but for a body that is no JSON: 400, not 500.
func TestRecordedRequests(t *testing.T) {
	w := open(t, func(o *Options, l *limits) {
		noAuth(o, l)
		// As recorded: alerts and statuses by POST, streams by PUT.
		o.Resources = []Resource{{Kind: kubescape("runtimealerts")}, {Kind: kubescape("registrystatuses")}, {Kind: kubescape("networkstreams"), Patch: true}}
	})
	text, err := os.ReadFile("testdata/http-v1.jsonl")
	require.NoError(t, err)
	want := map[string]recorded{}
	var requests []recorded
	for line := range bytes.Lines(text) {
		var r recorded
		require.NoError(t, json.Unmarshal(line, &r))
		if r.Dir == "http->client" {
			requests = append(requests, r)
		} else {
			want[r.Scenario] = r
		}
	}
	require.Len(t, requests, 13)
	accepted := 0
	for _, r := range requests {
		status := r.Status
		if status == http.StatusInternalServerError {
			status = http.StatusBadRequest
		}
		a := w.do(r.Method, r.Path, "", strings.NewReader(r.Body))
		require.Equal(t, status, a.status, "%s: %s", r.Scenario, a.text)
		if status != http.StatusAccepted {
			continue
		}
		accepted++
		require.Empty(t, a.text)
		require.Equal(t, "0", a.header.Get("Content-Length"))
		frame := want[r.Scenario].Frame
		got := w.outlet.messages()
		require.Len(t, got, accepted)
		msg := got[accepted-1]
		require.NotEmpty(t, msg.MsgID)
		event, bytes := synchronizer.EventPut, frame.Object
		if frame.Event == 5 {
			event, bytes = synchronizer.EventPatch, frame.Patch
		}
		msg.MsgID = ""
		require.Equal(t, synchronizer.Message{
			Event: event, Depth: frame.Depth, Kind: synchronizer.Kind(frame.Kind),
			Namespace: frame.Namespace, Name: frame.Name, Checksum: frame.Checksum, Body: []byte(bytes),
		}, msg, r.Scenario)
	}
	require.Equal(t, 4, accepted)
}

func TestBodies(t *testing.T) {
	resource := Resource{Kind: kubescape("runtimealerts")}
	for _, c := range []struct{ body, name, namespace, fault string }{
		{report("RuntimeAlerts", "A.B:c/d"), "a.b:c/d", "kubescape", ""},
		{`{"kind":"runtimealerts","apiVersion":"Kubescape.io/V1"}`, "", "", ""},
		{` {"metadata":{"name":"\u0041"},"kind":"runtimealerts","apiVersion":"kubescape.io/v1"} `, "a", "", ""},
		{``, "", "", "reading the body"},
		{`{oops`, "", "", "reading the body"},
		{`[` + report("RuntimeAlerts", "a") + `]`, "", "", "reading the body"},
		{report("RuntimeAlerts", "a") + report("RuntimeAlerts", "b"), "", "", "reading the body"},
		{`null`, "", "", "reading the body"},
		{report("RuntimeAlert", "a"), "", "", `kind "runtimealerts"`},
		{`{"kind":"runtimealerts","apiVersion":"kubescape.io/v2"}`, "", "", `apiVersion "kubescape.io/v1"`},
		{`{"kind":"runtimealerts","apiVersion":"v1"}`, "", "", `apiVersion "kubescape.io/v1"`},
		{report("runtimealerts", `a\u0000`), "", "", "control characters"},
		{report("runtimealerts", strings.Repeat("a", 1025)), "", "", "at most 1024 bytes"},
		{strings.Repeat("[", 1_000_000), "", "", "reading the body"},
	} {
		msg, err := newMessage(resource, []byte(c.body))
		if c.fault != "" {
			require.ErrorContains(t, err, c.fault)
			continue
		}
		require.NoError(t, err, c.body)
		require.Equal(t, c.name, msg.Name)
		require.Equal(t, c.namespace, msg.Namespace)
		require.Equal(t, c.body, string(msg.Body), "unchanged")
		require.Equal(t, 1, msg.Depth)
	}
}

// FuzzMessage: whatever a body is, it is refused or becomes a message that holds
// it byte for byte.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{report("RuntimeAlerts", "A"), `{"metadata":{"annotations":{"kubescape.io/sync-checksum":"x"}}}`, `{`, `[]`, "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		msg, err := newMessage(Resource{Kind: kubescape("runtimealerts")}, bytes.Clone(body))
		if err != nil {
			return
		}
		require.True(t, json.Valid(body))
		require.Equal(t, body, msg.Body)
		require.Equal(t, strings.ToLower(msg.Name), msg.Name)
		require.Equal(t, kubescape("runtimealerts"), msg.Kind)
	})
}
