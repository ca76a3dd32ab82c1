// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer"
	"synchronizer/internal/kube"
	"synchronizer/internal/policy"
	"synchronizer/internal/rawjson"
)

// memory is an API server of one object that stores what it is given.
type memory struct {
	body    []byte // nil: none
	version int
	sent    [][]byte
}

func (m *memory) object() (synchronizer.Object, error) {
	if m.body == nil {
		return synchronizer.Object{}, synchronizer.ErrNotFound
	}
	return synchronizer.Object{Body: m.body, ResourceVersion: strconv.Itoa(m.version)}, nil
}

func (m *memory) Get(context.Context, synchronizer.Kind, string, string) (synchronizer.Object, error) {
	return m.object()
}

// store keeps a body under the next resourceVersion, with what a server owns.
func (m *memory) store(body []byte) (synchronizer.Object, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(body, &doc); err != nil {
		return synchronizer.Object{}, synchronizer.ErrInvalid
	}
	metadata := map[string]json.RawMessage{}
	if doc["metadata"] != nil {
		if err := json.Unmarshal(doc["metadata"], &metadata); err != nil {
			return synchronizer.Object{}, synchronizer.ErrInvalid
		}
	}
	m.version++
	for name, text := range map[string]string{"uid": `"u"`, "resourceVersion": strconv.Quote(strconv.Itoa(m.version)), "generation": strconv.Itoa(m.version), "managedFields": `[{}]`, "creationTimestamp": `"now"`} {
		metadata[name] = json.RawMessage(text)
	}
	doc["metadata"], _ = json.Marshal(metadata)
	m.body, _ = json.Marshal(doc)
	return m.object()
}

func (m *memory) Create(_ context.Context, _ synchronizer.Kind, _ string, body []byte) (synchronizer.Object, error) {
	if m.body != nil {
		return synchronizer.Object{}, kube.ErrAlreadyExists
	}
	m.sent = append(m.sent, body)
	return m.store(body)
}

func (m *memory) Update(_ context.Context, _ synchronizer.Kind, _, _ string, body []byte) (synchronizer.Object, error) {
	m.sent = append(m.sent, body)
	version, _ := rawjson.Get(body, "metadata", "resourceVersion")
	if string(version) != strconv.Quote(strconv.Itoa(m.version)) {
		return synchronizer.Object{}, kube.ErrConflict
	}
	return m.store(body)
}

func (m *memory) Delete(context.Context, synchronizer.Kind, string, string) error { return nil }

// anything draws a JSON value.
func anything(t *rapid.T, depth int) any {
	most := 5
	if depth == 0 {
		most = 3
	}
	switch rapid.IntRange(0, most).Draw(t, "type") {
	case 0:
		return rapid.SampledFrom([]string{"", "a", "b", "<é\u2028>", "XXXXXY"}).Draw(t, "text")
	case 1:
		return json.Number(rapid.SampledFrom([]string{"0", "1", "1.0", "-3", "9007199254740993", "1e3"}).Draw(t, "number"))
	case 2:
		return rapid.Bool().Draw(t, "bool")
	case 3:
		return nil
	case 4:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, anything(t, depth-1))
		}
		return list
	default:
		object := map[string]any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"name", "x", "y", "a.b/c"}), 0, 3, rapid.ID[string]).Draw(t, "names") {
			object[name] = anything(t, depth-1)
		}
		return object
	}
}

// workload draws an object with containers and environment values, each of
// which stands once.
func workload(t *rapid.T) map[string]any {
	secret := 0
	var containers []any
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"web", "side", "log"}), 0, 3, rapid.ID[string]).Draw(t, "containers") {
		var env []any
		for _, variable := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"A", "B", "C", "D"}), 0, 4, rapid.ID[string]).Draw(t, "variables") {
			secret++
			env = append(env, map[string]any{"name": variable, "value": fmt.Sprintf("secret-%d", secret)})
		}
		c := map[string]any{"name": name, "image": "i", "misc": anything(t, 2), "hidden": fmt.Sprintf("hidden-%s", name)}
		if env != nil {
			c["env"] = env
		}
		containers = append(containers, c)
	}
	labels := map[string]any{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"l1", "l2", "l3"}), 0, 3, rapid.ID[string]).Draw(t, "labels") {
		labels[name] = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "label")
	}
	return map[string]any{
		"apiVersion": "example.org/v1", "kind": "Widget", "metadata": map[string]any{"name": "x", "labels": labels},
		"spec":   map[string]any{"containers": containers, "misc": anything(t, 3), "hidden": "hidden-spec", "hashed": "hashed-spec"},
		"status": map[string]any{"x": anything(t, 1)},
	}
}

// edit changes a shown object as a backend may: it moves, drops and adds
// containers and variables, and changes values, but invents no mask.
func edit(t *rapid.T, doc map[string]any) {
	spec := doc["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		c := c.(map[string]any)
		env, _ := c["env"].([]any)
		env = reorder(t, env)
		for _, v := range env {
			if v := v.(map[string]any); rapid.IntRange(0, 5).Draw(t, "set") == 0 {
				v["value"] = "set by the backend"
			}
		}
		if rapid.Bool().Draw(t, "add variable") {
			env = append(env, map[string]any{"name": "NEW", "value": "new"})
		}
		c["env"] = env
		if rapid.Bool().Draw(t, "image") {
			c["image"] = "j"
		}
		if rapid.Bool().Draw(t, "misc") {
			c["misc"] = anything(t, 2)
		}
	}
	spec["containers"] = reorder(t, containers)
	if rapid.Bool().Draw(t, "misc") {
		spec["misc"] = anything(t, 3)
	}
	metadata := doc["metadata"].(map[string]any)
	metadata["labels"] = map[string]any{"l1": "9", "l4": "4"}
	doc["status"] = "nonsense"
}

func reorder(t *rapid.T, list []any) []any {
	if len(list) == 0 {
		return list
	}
	list = rapid.Permutation(list).Draw(t, "order")
	return list[:rapid.IntRange(0, len(list)).Draw(t, "kept")]
}

var hiding = []policy.Rule{
	{Match: policy.Match{Group: "*", Resource: "*"}, Action: policy.ActionDrop, Paths: []string{"spec.hidden", "spec.containers[*].hidden"}},
	{Match: policy.Match{Group: "*", Resource: "*"}, Action: policy.ActionHash, Salt: []byte("0123456789abcdef"), Paths: []string{"spec.hashed"}},
}

func TestPutProperties(t *testing.T) {
	rules, problems := policy.Compile(policy.LinkV1, hiding)
	require.Empty(t, problems)
	rapid.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		raw, err := json.Marshal(workload(rt))
		require.NoError(rt, err)
		api := &memory{}
		_, err = api.store(raw)
		require.NoError(rt, err)
		before := string(api.body)
		a := New(Options{Cluster: api, Policy: rules, Strategy: everything})
		at := target{widgets, "n", "x"}
		shown, tree, err := a.show(at, api.body)
		require.NoError(rt, err)

		// What was shown changes nothing.
		result, err := a.Put(ctx, widgets, "n", "x", shown)
		require.NoError(rt, err)
		require.Equal(rt, Unchanged, result.Outcome, "%+v", result)
		require.Empty(rt, api.sent)

		decoder := json.NewDecoder(strings.NewReader(string(shown)))
		decoder.UseNumber()
		var desired map[string]any
		require.NoError(rt, decoder.Decode(&desired))
		edit(rt, desired)
		body, err := json.Marshal(desired)
		require.NoError(rt, err)
		result, err = a.Put(ctx, widgets, "n", "x", body)
		require.NoError(rt, err)
		require.Contains(rt, []Outcome{Applied, Unchanged}, result.Outcome, "%+v", result)

		// The backend sees what it wanted.
		_, now, err := a.show(at, api.body)
		require.NoError(rt, err)
		plain := strings.Replace(string(body), rawText(tree.get("spec").get("hashed")), `"hashed-spec"`, 1)
		_, wanted, err := a.show(at, []byte(plain))
		require.NoError(rt, err)
		require.True(rt, equal(now.get("spec"), wanted.get("spec")), "%s\n%s", now.raw, body)
		require.True(rt, equal(now.get("status"), tree.get("status")))
		for name, want := range labels(tree) {
			require.Equal(rt, want, labels(now)[name], "existing labels stay")
		}
		require.Equal(rt, `"4"`, labels(now)["l4"])

		// No mask was written, and what is hidden is as it was, each at its place.
		after := string(api.body)
		require.NotContains(rt, after, `"XXXXXX"`)
		require.NotContains(rt, after, "sha256:")
		require.Contains(rt, after, `"hidden-spec"`)
		require.Contains(rt, after, `"hashed-spec"`)
		had, has := secretsOf(rt, before), secretsOf(rt, after)
		for place, value := range has {
			if strings.HasPrefix(value, "secret-") || strings.HasPrefix(value, "hidden-") {
				require.Equal(rt, had[place], value, place)
			}
		}
		for place := range secretsOf(rt, string(body)) {
			require.NotEmpty(rt, has[place], place)
		}

		// Again it changes nothing, and nothing server-owned was ever sent.
		sent, version := len(api.sent), api.version
		result, err = a.Put(ctx, widgets, "n", "x", body)
		require.NoError(rt, err)
		require.Equal(rt, Unchanged, result.Outcome, "%+v", result)
		require.Equal(rt, sent, len(api.sent))
		require.Equal(rt, version, api.version)
		requireNothingOwned(rt, api.sent, tree.get("status"))
	})
}

func TestCreateProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		doc := workload(rt)
		metadata := doc["metadata"].(map[string]any)
		for _, name := range owned {
			if rapid.Bool().Draw(rt, name) {
				metadata[name] = anything(rt, 2)
			}
		}
		body, err := json.Marshal(doc)
		require.NoError(rt, err)
		api := &memory{}
		a := New(Options{Cluster: api, Policy: policy.New(policy.LinkV1), Strategy: everything})
		for _, want := range []Outcome{Applied, Unchanged} {
			result, err := a.Put(t.Context(), widgets, "n", "x", body)
			require.NoError(rt, err)
			require.Equal(rt, want, result.Outcome, "%+v", result)
		}
		require.Len(rt, api.sent, 1)
		requireNothingOwned(rt, api.sent, nil)
		sent, err := rawjson.Get(api.sent[0], "metadata", "resourceVersion")
		require.NoError(rt, err)
		require.Nil(rt, sent)
		was, err := read(body)
		require.NoError(rt, err)
		is, err := read(api.body)
		require.NoError(rt, err)
		require.True(rt, equal(was.get("spec"), is.get("spec")))
	})
}

func requireNothingOwned(t require.TestingT, sent [][]byte, status *value) {
	for _, body := range sent {
		v, err := read(body)
		require.NoError(t, err)
		for _, m := range v.get("metadata").members {
			if m.name != "resourceVersion" {
				require.False(t, slices.Contains(owned, m.name), m.name)
			}
		}
		require.True(t, equal(v.get("status"), status), "the status is sent as it is, or not at all")
	}
}

func rawText(v *value) string { return string(v.raw) }

func labels(v *value) map[string]string {
	found := map[string]string{}
	if l := v.get("metadata").get("labels"); l != nil {
		for _, m := range l.members {
			found[m.name] = string(m.raw)
		}
	}
	return found
}

// secretsOf gives the values of variables and hidden members by their place.
func secretsOf(t require.TestingT, doc string) map[string]string {
	var object struct {
		Spec struct {
			Containers []struct {
				Name   string
				Hidden string
				Env    []struct{ Name, Value string }
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(doc), &object))
	found := map[string]string{}
	for _, c := range object.Spec.Containers {
		if c.Hidden != "" {
			found[c.Name] = c.Hidden
		}
		for _, v := range c.Env {
			found[c.Name+"/"+v.Name] = v.Value
		}
	}
	return found
}

func FuzzLaying(f *testing.F) {
	f.Add([]byte(`{"metadata":{"labels":{}},"spec":{"env":[{"name":"A","value":"one"}]}}`), []byte(`{"spec":{"env":[{"name":"A","value":"XXXXXX"}]}}`))
	f.Add([]byte(`{"a":[[1],{"name":"x"}],"status":1}`), []byte(`{"a":[{"name":"x"},[1]],"b":null}`))
	rules := policy.New(policy.LinkV1)
	f.Fuzz(func(t *testing.T, currentDoc, desiredDoc []byte) {
		a := New(Options{Policy: rules})
		at := target{widgets, "", "x"}
		current, err := read(currentDoc)
		if err != nil {
			return
		}
		desired, err := read(desiredDoc)
		if err != nil {
			return
		}
		_, shown, err := a.show(at, currentDoc)
		require.NoError(t, err)
		m := a.merger(at)
		written, changed := m.object(current, shown, desired)
		result, err := read(written)
		require.NoError(t, err, "%s", written)
		_, _ = a.newObject(at, desired)
		if a.fit(at, m, current, written) != nil {
			return
		}
		// Done once, it is done.
		_, shown, err = a.show(at, written)
		require.NoError(t, err)
		_, again := a.merger(at).object(result, shown, desired)
		require.False(t, again, "%v: %s", changed, written)
	})
}
