// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"synchronizer/internal/rawjson"
)

// tree is a document in which scalars and names keep their spelling, and members their
// order and duplicates.
type tree struct {
	typ    rawjson.Type
	raw    string // of a scalar
	names  []rawjson.Text
	inside []*tree
}

func parseTree(t require.TestingT, raw []byte) *tree {
	v := &tree{typ: rawjson.TypeOf(raw)}
	switch v.typ {
	case rawjson.Object:
		require.NoError(t, rawjson.Members(raw, func(key rawjson.Text, value []byte) error {
			v.names = append(v.names, key)
			v.inside = append(v.inside, parseTree(t, value))
			return nil
		}))
	case rawjson.Array:
		require.NoError(t, rawjson.Elements(raw, func(value []byte) error {
			v.inside = append(v.inside, parseTree(t, value))
			return nil
		}))
	default:
		v.raw = strings.TrimSpace(string(raw))
	}
	return v
}

func (v *tree) String() string {
	var parts []string
	for i, inner := range v.inside {
		name := ""
		if v.typ == rawjson.Object {
			name = string(v.names[i]) + ":"
		}
		parts = append(parts, name+inner.String())
	}
	switch v.typ {
	case rawjson.Object:
		return "{" + strings.Join(parts, ",") + "}"
	case rawjson.Array:
		return "[" + strings.Join(parts, ",") + "]"
	}
	return v.raw
}

// model applies rules one by one to every place, the slow and simple way.
type model struct {
	kind  groupResource
	edits []edit
	keeps []keeping
}

// leads reports whether p, or its beginning of the length of place, leads to the place,
// in which "[]" stands for an element.
func leads(p path, place []string) bool {
	if len(p) < len(place) {
		return false
	}
	for i, name := range place {
		if element := name == "[]"; element != (p[i].kind == anyElement) || !element && !p[i].member(name) {
			return false
		}
	}
	return true
}

func (m *model) rank(place []string) (highest rank, found, strict bool) {
	revealed := false
	for _, e := range m.edits {
		if len(e.path) <= len(place) && leads(e.path, place[:len(e.path)]) && e.rank == rankReveal {
			revealed = true
		}
		strict = strict || e.strict && len(e.path) == len(place)+1 && leads(e.path[:len(place)], place)
	}
	for _, e := range m.edits {
		if len(e.path) == len(place) && leads(e.path, place) && (!found || e.rank > highest) {
			highest, found = e.rank, true
		}
	}
	if last := len(place) - 1; !found && !revealed && last > 1 && place[last] == "value" && place[last-1] == "[]" && place[last-2] == "env" {
		return rankBuiltinMask, true, false
	}
	found = found && highest != rankReveal && (highest != rankBuiltinMask || !revealed)
	return highest, found, strict && !revealed
}

// kept reports whether keep-only rules let the place, and a value of type t there, stay.
func (m *model) kept(place []string, t rawjson.Type) (named, fits bool) {
	named, fits = true, true
	for _, k := range m.keeps {
		if len(place) < len(k.root) || !leads(k.root, place[:len(k.root)]) {
			continue
		}
		satisfied, way, shape := false, false, false
		for _, rest := range k.paths {
			full := append(append(path{}, k.root...), rest...)
			if len(full) <= len(place) && leads(full, place[:len(full)]) {
				satisfied = true
			} else if leads(full, place) {
				way = true
				_, _, strict := m.rank(place)
				shape = shape || !(strict && t == rawjson.Array) && (full[len(place)].kind == anyElement) == (t == rawjson.Array) && (t == rawjson.Array || t == rawjson.Object)
			}
		}
		named, fits = named && (satisfied || way), fits && (satisfied || shape)
	}
	return named, fits
}

func (m *model) apply(v *tree, place []string) *tree {
	scalar := func(text string) *tree { return &tree{typ: rawjson.String, raw: text} }
	highest, found, strict := m.rank(place)
	_, fits := m.kept(place, v.typ)
	switch {
	case !found && !fits:
		return scalar("null")
	case v.typ == rawjson.Null:
		return v
	case found && highest == rankNull, !found && strict && v.typ != rawjson.Object:
		return scalar("null")
	case found && highest == rankHash:
		return scalar("HASH")
	case found && m.kind == secrets && len(place) > 0 && place[0] == "data":
		return scalar(maskBase64)
	case found:
		return scalar(mask)
	}
	result := &tree{typ: v.typ, raw: v.raw}
	for i, inner := range v.inside {
		name := "[]"
		if v.typ == rawjson.Object {
			name = v.names[i].String()
		}
		next := append(append([]string{}, place...), name)
		named, fits := m.kept(next, inner.typ)
		dropped, found, _ := m.rank(next)
		if !named || found && dropped == rankDrop || !found && !fits && v.typ == rawjson.Object {
			continue
		}
		if v.typ == rawjson.Object {
			result.names = append(result.names, v.names[i])
		}
		result.inside = append(result.inside, m.apply(inner, next))
	}
	return result
}

func drawRules(t *rapid.T, actions ...Action) []Rule {
	var rules []Rule
	for range rapid.IntRange(0, 4).Draw(t, "rules") {
		r := Rule{Match: anyKind, Action: rapid.SampledFrom(actions).Draw(t, "action")}
		r.Match.Resource = rapid.SampledFrom([]string{"*", "pods"}).Draw(t, "resource")
		if rapid.Bool().Draw(t, "secret") {
			r.Match = Match{Resource: "secrets"}
		}
		if r.Action == ActionHash {
			r.Salt = []byte(salt)
		}
		for range rapid.IntRange(1, 3).Draw(t, "paths") {
			text := rapid.SampledFrom([]string{"spec", "data", "status", "a", "metadata.annotations"}).Draw(t, "first")
			for range rapid.IntRange(0, 4).Draw(t, "steps") {
				text += rapid.SampledFrom([]string{".a", ".b", ".env", ".value", ".*", "[*]", ".data"}).Draw(t, "step")
			}
			r.Paths = append(r.Paths, text)
		}
		if _, wrong := r.compile(0); len(wrong) == 0 {
			rules = append(rules, r)
		}
	}
	return rules
}

// drawDocument makes an object whose scalars are all different and hold a canary.
func drawDocument(t *rapid.T) string {
	n := 0
	var value func(depth int) string
	value = func(depth int) string {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		var parts []string
		switch {
		case depth == 0 || kind == 0:
			n++
			form := rapid.SampledFrom([]string{`"canary#."`, `"\u0063anary#."`, "1.0e#", "null", "-0.#0"}).Draw(t, "form")
			return strings.ReplaceAll(form, "#", strconv.Itoa(n))
		case kind == 1, kind == 2:
			for range rapid.IntRange(0, 3).Draw(t, "elements") {
				parts = append(parts, value(depth-1))
			}
			return "[" + strings.Join(parts, " , ") + "]"
		}
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			name := rapid.SampledFrom([]string{"a", "b", "env", "value", "data", "annotations", `\u0061`}).Draw(t, "name")
			parts = append(parts, `"`+name+`": `+value(depth-1))
		}
		return "{ " + strings.Join(parts, ",") + " }"
	}
	var parts []string
	for _, name := range []string{"metadata", "spec", "data", "status", "a", "stringData"} {
		parts = append(parts, `"`+name+`":`+value(5))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func TestRulesEqualTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := drawRules(t, ActionDrop, ActionMask, ActionHash, ActionKeep, ActionReveal)
		link := rapid.SampledFrom([]Link{LinkV1, LinkV2}).Draw(t, "link")
		k := rapid.SampledFrom([]groupResource{{"", "pods"}, secrets, {"", "nodes"}}).Draw(t, "kind")
		doc := []byte(drawDocument(t))
		transform := compiledRules(t, link, rules...)
		original := bytes.Clone(doc)
		got, err := transform.Apply(nil, k.group, k.resource, "n", doc)
		require.NoError(t, err)
		require.Equal(t, original, doc)

		s := state{edits: builtin(link, k)}
		for _, c := range transform.rules {
			if c.matchesKind(k) {
				s.add(c, k)
			}
		}
		m := model{kind: k, edits: s.edits, keeps: s.keeps}
		want := m.apply(parseTree(t, doc), nil).String()
		is := parseTree(t, got)
		hideHashes(is)
		require.Equal(t, want, is.String(), "%v of\n%s", rules, doc)
	})
}

func hideHashes(v *tree) {
	if strings.HasPrefix(v.raw, `"sha256:`) || strings.HasPrefix(v.raw, `"c2hhMjU2`) {
		v.raw = "HASH"
	}
	for _, inner := range v.inside {
		hideHashes(inner)
	}
}

func TestTwiceIsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		transform := compiledRules(t, LinkV1, drawRules(t, ActionDrop, ActionMask, ActionKeep, ActionReveal)...)
		k := rapid.SampledFrom([]groupResource{{"", "pods"}, secrets}).Draw(t, "kind")
		once, err := transform.Apply(nil, k.group, k.resource, "n", []byte(drawDocument(t)))
		require.NoError(t, err)
		twice, err := transform.Apply(nil, k.group, k.resource, "n", once)
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
	})
}

// Whatever other rules there are, nothing below a path of drop, mask or hash is left.
func TestHiddenValuesAreNowhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hiding := drawRules(t, ActionDrop, ActionMask, ActionHash)
		others := drawRules(t, ActionReveal, ActionKeep)
		doc := []byte(drawDocument(t))
		got, err := compiledRules(t, LinkV1, append(others, hiding...)...).Apply(nil, "", "pods", "n", doc)
		require.NoError(t, err)
		var find func(v *tree, place []string, hidden bool)
		find = func(v *tree, place []string, hidden bool) {
			for i := range hiding {
				c, _ := hiding[i].compile(0)
				for _, p := range c.paths {
					hidden = hidden || c.matchesKind(groupResource{"", "pods"}) && len(p) == len(place) && leads(p, place)
				}
			}
			if hidden && strings.Contains(v.raw, "anary") {
				require.NotContains(t, string(got), v.raw, "%v", place)
			}
			for i, inner := range v.inside {
				name := "[]"
				if v.typ == rawjson.Object {
					name = v.names[i].String()
				}
				find(inner, append(append([]string{}, place...), name), hidden)
			}
		}
		find(parseTree(t, doc), nil, false)
	})
}

func FuzzParsePath(f *testing.F) {
	for _, text := range []string{"spec.template.spec.containers[*].image", "data.*", `metadata.annotations['example.com/x']`, `a["it's"][*]['']`, "a..b", "a[", "['a']b", "[*]", "$.a", "a.*b", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePath(text)
		if err != nil {
			require.NotEmpty(t, err.Error())
			require.NotContains(t, err.Error(), "\n", "one line each")
			return
		}
		again, err := parsePath(p.String())
		require.NoError(t, err, "%q of %q", p.String(), text)
		require.Equal(t, p, again)
		_, wrong := Compile(LinkV1, []Rule{one(ActionMask, text), one(ActionDrop, text)})
		for _, w := range wrong {
			require.Contains(t, w.Message, "must stay")
		}
	})
}
