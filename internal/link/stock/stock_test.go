// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

type recorded struct {
	Scenario string          `json:"scenario"`
	Dir      string          `json:"dir"`
	Type     string          `json:"type"`
	Frame    json.RawMessage `json:"frame"`
	Text     string          `json:"text"`
}

type recording []recorded

func readRecording(t *testing.T) recording {
	file, err := os.Open("testdata/frames-v1.jsonl")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var all recording
	for lines := json.NewDecoder(bufio.NewReader(file)); lines.More(); {
		var r recorded
		require.NoError(t, lines.Decode(&r))
		var escaped bytes.Buffer // the recording took off optional escapes
		json.HTMLEscape(&escaped, r.Frame)
		r.Frame = escaped.Bytes()
		all = append(all, r)
	}
	return all
}

func (r recording) frames(scenario string, from string) [][]byte {
	var frames [][]byte
	for _, line := range r {
		if strings.HasPrefix(line.Scenario, scenario) && strings.HasPrefix(line.Dir, from) && line.Type == "MessageBinary" {
			if len(line.Frame) == 0 {
				line.Frame = []byte(line.Text)
			}
			frames = append(frames, line.Frame)
		}
	}
	return frames
}

// object is a recorded PutObject's Object, or the result of its recorded patch.
func (r recording) object(t *testing.T, scenario, name string) string {
	for _, line := range r {
		f, _ := parse(line.Frame)
		if strings.HasPrefix(line.Scenario, scenario) && f.Name == name && f.Object != "" {
			return f.Object
		}
		if strings.HasPrefix(line.Scenario, scenario) && f.Name == name && len(f.BaseObject) > 2 {
			return f.BaseObject
		}
	}
	require.Fail(t, "not recorded", "%s %s", scenario, name)
	return ""
}

var (
	configmaps  = synchronizer.Kind{Version: "v1", Resource: "configmaps"}
	accounts    = synchronizer.Kind{Version: "v1", Resource: "serviceaccounts"}
	pods        = synchronizer.Kind{Version: "v1", Resource: "pods"}
	deployments = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
	policies    = synchronizer.Kind{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
	widgets     = synchronizer.Kind{Group: "example.com", Version: "v1", Resource: "widgets"}

	recordedKinds = map[synchronizer.Kind]Strategy{
		configmaps: Copy, accounts: Copy, pods: Patch, deployments: Patch, policies: Patch, widgets: Patch,
	}
)

// step is a recorded scenario: the state before it, and what of the frames
// cannot be the same.
type step struct {
	scenario string
	from     string // who sends to the client; default server->client
	objects  []given
	change   *given            // happens in the cluster
	unlike   map[string]string // names whose Checksum cannot be known -> why
	none     bool              // nothing is answered
}

type given struct {
	kind     synchronizer.Kind
	name     string
	json     string
	baseline string
	hidden   bool
}

func TestAnswersAreTheRecordedOnes(t *testing.T) {
	r := readRecording(t)
	const (
		asked      = "first sync: the backend asks"
		modified   = "modify: copy strategy (configmap)"
		older      = "GetObject from the backend with a baseObject (an older"
		equal      = "GetObject from the backend with a baseObject equal"
		exactW2    = "reconciliation batch: the same object"
		recCopy    = "reconciliation batch, copy"
		recPatch   = "reconciliation batch, patch"
		hiddenGet  = "GetObject from the backend for an object that the filters hide"
		exactW3    = "GetObject for that object, baseObject empty, no baseline"
		nullGet    = "GetObject from the backend, baseObject null"
		unknownOld = "its object was not recorded"
	)
	webBase := r.object(t, older, "web")
	webFrames := r.frames(older, "client->server")
	webPatch, _ := parse(webFrames[0])
	basis, _ := decode(webBase)
	change, _ := decode(webPatch.Patch)
	web := string(marshal(apply(basis, change)))
	np1 := r.object(t, equal, "np1")
	c1 := r.object(t, nullGet, "c1")
	w2 := r.object(t, nullGet, "w2")
	settings := r.object(t, asked, "settings")
	rest := func(kind synchronizer.Kind, name, version string) given {
		return given{kind: kind, name: name, json: `{"metadata":{"generation":1,"resourceVersion":"` + version + `"}}`}
	}
	for _, s := range []step{
		{scenario: asked, objects: []given{
			{kind: deployments, name: "web", json: r.object(t, asked, "web")},
			{kind: widgets, name: "w1", json: r.object(t, asked, "w1")},
			{kind: configmaps, name: "settings", json: settings},
			{kind: pods, name: "single", json: r.object(t, asked, "single")},
			{kind: policies, name: "deny", json: r.object(t, asked, "deny")},
			{kind: accounts, name: "robot", json: r.object(t, asked, "robot")},
		}},
		{
			scenario: "modify: patch strategy with baseline: custom object",
			objects:  []given{{kind: widgets, name: "w2", json: w2, baseline: w2}},
			change:   &given{kind: widgets, name: "w2", json: r.object(t, exactW2, "w2")},
		},
		{
			scenario: "modify: only managedFields and resourceVersion change (copy",
			objects:  []given{{kind: configmaps, name: "c1", json: `{}`}}, change: &given{kind: configmaps, name: "c1", json: c1},
		},
		{
			scenario: "modify: only managedFields and resourceVersion change (patch", none: true,
			objects: []given{{kind: deployments, name: "web", json: web, baseline: web}},
			change:  &given{kind: deployments, name: "web", json: strings.Replace(web, `"241"`, `"242"`, 1)},
		},
		{
			scenario: "GetObject from the backend, baseObject empty, patch strategy, baseline differs", none: true,
			objects: []given{{kind: deployments, name: "web", json: web, baseline: strings.Replace(web, `"241"`, `"238"`, 1)}},
		},
		{
			scenario: "GetObject from the backend, baseObject empty, patch strategy, baseline equals",
			objects:  []given{{kind: deployments, name: "d1", json: r.object(t, modified, "d1"), baseline: r.object(t, modified, "d1")}},
		},
		{scenario: nullGet, objects: []given{{kind: configmaps, name: "c1", json: c1}, {kind: widgets, name: "w2", json: w2}}},
		{scenario: older, objects: []given{{kind: deployments, name: "web", json: web, baseline: web}}},
		{scenario: equal, objects: []given{{kind: policies, name: "np1", json: np1}}},
		{scenario: "GetObject from the backend with baseObject {}, patch", objects: []given{{kind: widgets, name: "w2", json: w2, baseline: w2}}},
		{scenario: "GetObject from the backend with baseObject {}, copy", objects: []given{{kind: configmaps, name: "c1", json: c1}}},
		{scenario: "GetObject from the backend with a baseObject that is not JSON", none: true, objects: []given{{kind: policies, name: "np1", json: np1}}},
		{scenario: "GetObject from the backend for an absent", none: true},
		{scenario: "GetObject from the backend for a kind that is not", none: true},
		{scenario: hiddenGet, objects: []given{
			{kind: pods, name: "child", json: r.object(t, hiddenGet, "child"), hidden: true},
			{kind: configmaps, name: "kube-system/hidden", json: r.object(t, hiddenGet, "hidden"), hidden: true},
		}},
		{scenario: "GetObject for the same object with baseObject {}", objects: []given{{kind: widgets, name: "w2", json: r.object(t, exactW2, "w2")}}},
		{scenario: exactW3, objects: []given{{kind: widgets, name: "w3", json: r.object(t, exactW3, "w3")}}},
		{scenario: "GetObject for that object, baseObject {}", objects: []given{{kind: widgets, name: "w3", json: r.object(t, exactW3, "w3")}}},
		{scenario: exactW2, objects: []given{{kind: widgets, name: "w2", json: r.object(t, exactW2, "w2")}, {kind: widgets, name: "w1", json: r.object(t, exactW2, "w1")}}},
		{
			scenario: recCopy, unlike: map[string]string{"r2": unknownOld},
			objects: []given{{kind: configmaps, name: "settings", json: settings}, {kind: configmaps, name: "r1", json: r.object(t, recCopy, "r1")}, rest(configmaps, "r2", "308")},
		},
		{
			scenario: recPatch, unlike: map[string]string{"r2": unknownOld, "deny": unknownOld},
			objects: []given{
				rest(policies, "np1", "279"),
				{kind: policies, name: "r1", json: r.object(t, recPatch, "r1")},
				rest(policies, "r2", "310"), rest(policies, "deny", "269"),
			},
		},
		{scenario: "reconciliation batch: another resourceVersion", objects: []given{
			{kind: configmaps, name: "settings", json: settings}, {kind: configmaps, name: "r1", json: r.object(t, recCopy, "r1")}, rest(configmaps, "r2", "308"),
		}},
		{scenario: "reconciliation batch: same resourceVersion", none: true, objects: []given{
			{kind: configmaps, name: "settings", json: settings}, {kind: configmaps, name: "r1", json: r.object(t, recCopy, "r1")}, rest(configmaps, "r2", "308"),
		}},
		{
			scenario: "reconciliation batch: sentinel name only", unlike: map[string]string{"w2": "compared elsewhere"},
			objects: []given{
				{kind: pods, name: "single", json: r.object(t, asked, "single")},
				{kind: accounts, name: "robot", json: r.object(t, asked, "robot")},
				{kind: widgets, name: "w2", json: w2},
				{kind: pods, name: "child", json: `{}`, hidden: true},
			},
		},
		{scenario: "reconciliation batch: empty list", none: true, objects: []given{{kind: configmaps, name: "settings", json: settings}}},
		{scenario: "reconciliation batch: kind that is not configured", none: true},
		{scenario: "PutObject from the backend: kind that is not configured", none: true},
		{scenario: "PutObject from the backend: object is not JSON", none: true, objects: []given{rest(configmaps, "down1", "285")}},
		{scenario: "PutObject from the backend: existing deployment exactly", none: true, objects: []given{{kind: deployments, name: "web", json: web}}},
		{scenario: "PatchObject from the backend: good checksum, resourceVersion kept (custom", objects: []given{rest(widgets, "downw", "1")}},
		{scenario: "PatchObject from the backend: bad checksum", objects: []given{{kind: policies, name: "np1", json: np1}}},
		{scenario: "PatchObject from the backend: kind with copy", objects: []given{rest(configmaps, "down1", "285")}},
		{scenario: "PatchObject from the backend: absent"},
		{scenario: "PatchObject from the backend: patch is not JSON", objects: []given{{kind: policies, name: "np1", json: np1}}},
		{scenario: "PatchObject from the backend: kind that is not configured", none: true},
		{scenario: "VerifyObject from the backend: different checksum (", objects: []given{{kind: policies, name: "np1", json: np1}}},
		{scenario: "VerifyObject from the backend: different checksum, copy", objects: []given{rest(configmaps, "down1", "285")}},
		{scenario: "VerifyObject from the backend: absent"},
		{scenario: "DeleteObject from the backend: existing object (", objects: []given{rest(configmaps, "down1", "285")}},
		{scenario: "DeleteObject from the backend: existing object, patch", objects: []given{rest(widgets, "downw", "1")}},
		{scenario: "DeleteObject from the backend: absent", none: true},
		{
			scenario: "default batch to the client", from: "test->client", unlike: map[string]string{"b1": "the API server adds to it"},
			objects: []given{{kind: configmaps, name: "settings", json: settings}, rest(configmaps, "r1", "307"), rest(configmaps, "r2", "308")},
		},
		{scenario: "to the client, injected by the test: batch with Kind null", from: "test->client", none: true},
		{scenario: "to the client, injected by the test: batch with Items null", from: "test->client", none: true},
		{scenario: "to the client, injected by the test: batch with unknown BatchType", from: "test->client", none: true},
		{scenario: "to the client, injected by the test: Event null", from: "test->client", none: true},
		{scenario: "to the client, injected by the test: unknown event", from: "test->client", none: true},
		{scenario: "to the client, injected by the test: GetObject with Kind null", from: "test->client", none: true},
		{scenario: "to the client, injected by the test: Ping message", from: "test->client", none: true},
		{scenario: "GetObject record with depth 8", none: true, objects: []given{{kind: configmaps, name: "settings", json: settings}}},
	} {
		t.Run(s.scenario, func(t *testing.T) { s.run(t, r) })
	}
}

func (s *step) run(t *testing.T, r recording) {
	c := NewCluster(recordedKinds)
	for _, o := range s.objects {
		k := o.key()
		c.objects[k] = &object{Object: o.object(), sent: o.baseline}
	}
	var got []string
	if s.change != nil {
		for _, f := range c.Set(s.change.object()) {
			got = append(got, s.comparable(f.Raw))
		}
	} else {
		from := s.from
		if from == "" {
			from = "server->client"
		}
		frames := r.frames(s.scenario, from)
		require.NotEmpty(t, frames)
		for _, frame := range frames {
			for _, f := range c.Answer(frame) {
				got = append(got, s.comparable(f.Raw))
			}
		}
	}
	if s.none {
		require.Empty(t, r.frames(s.scenario, "client->server"))
		require.Empty(t, got)
		return
	}
	var want []string
	for _, frame := range r.frames(s.scenario, "client->server") {
		want = append(want, s.comparable(frame))
	}
	// Answers to several frames come in any order.
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
}

// comparable takes out ids of first messages and checksums that cannot be known.
func (s *step) comparable(raw []byte) string {
	f, _ := parse(raw)
	text := string(raw)
	if f.Depth == 1 {
		text = strings.Replace(text, f.MsgId, "*", 1)
	}
	if s.unlike[f.Name] != "" && f.Checksum != "" {
		text = strings.Replace(text, f.Checksum, "*", 1)
	}
	return text
}

// alarm is a testing.TB that remembers whether it failed.
type alarm struct {
	testing.TB
	failed bool
}

func (a *alarm) Error(...any)   { a.failed = true }
func (a *alarm) Cleanup(func()) {}

func TestPingFrameIsAnAlarm(t *testing.T) {
	a := &alarm{TB: t}
	require.False(t, newSession(a).onPing(t.Context(), nil), "no pong is sent")
	require.True(t, a.failed)
}

func (g *given) key() key {
	o := g.object()
	return key{o.Kind, o.Namespace, o.Name}
}

func (g *given) object() Object {
	namespace, name, ok := strings.Cut(g.name, "/")
	if !ok {
		namespace, name = "demo", g.name
	}
	return Object{Kind: g.kind, Namespace: namespace, Name: name, JSON: g.json, Hidden: g.hidden}
}
