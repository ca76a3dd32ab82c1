// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

const salt = "sixteen bytes or more"

// anyKind matches everything.
var anyKind = Match{Group: "*", Resource: "*"}

func compiledRules(t require.TestingT, link Link, rules ...Rule) *Transform {
	transform, problems := Compile(link, rules)
	require.Empty(t, problems)
	return transform
}

// one is a rule for the kind that the tests of single rules use.
func one(action Action, paths ...string) Rule {
	r := Rule{Match: Match{Resource: "configmaps"}, Action: action, Paths: paths}
	if action == ActionHash {
		r.Salt = []byte(salt)
	}
	return r
}

func hashOf(text string) string {
	mac := hmac.New(sha256.New, []byte(salt))
	mac.Write([]byte(text))
	return "sha256:" + hex.EncodeToString(mac.Sum(nil))
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		resource            string // configmaps if empty
		rules               []Rule
	}{
		{
			name:   "drop members, all members, all elements",
			rules:  []Rule{one(ActionDrop, "spec.a", "status.*", "list[*]", "deep[*].x[*].y")},
			before: `{"spec":{"a":1, "b":1.0},"status":{ "a":{}, "b":2 },"list":[ 1, {"a":2} ],"deep":[{"x":[{"y":1,"z":1e3}, 4]},{"x":{"y":2}}]}`,
			after:  `{"spec":{"b":1.0},"status":{ },"list":[],"deep":[{"x":[{"z":1e3}, 4]},{"x":{"y":2}}]}`,
		},
		{
			name:   "mask whatever is there but null",
			rules:  []Rule{one(ActionMask, "data.*", "x[*]", "whole")},
			before: `{"data":{"s":"a","n":1,"b":true,"e":"","o":{"k":"v"},"l":[1],"null":null},"x":["a",null,[]],"whole":{"a":"b"}}`,
			after:  `{"data":{"s":"XXXXXX","n":"XXXXXX","b":"XXXXXX","e":"XXXXXX","o":"XXXXXX","l":"XXXXXX","null":null},"x":["XXXXXX",null,"XXXXXX"],"whole":"XXXXXX"}`,
		},
		{
			name:   "hash shows equality",
			rules:  []Rule{one(ActionHash, "data.*")},
			before: `{"data":{"a":"<","b":"\u003c","c":">","n":1,"null":null}}`,
			after:  `{"data":{"a":"` + hashOf("<") + `","b":"` + hashOf("<") + `","c":"` + hashOf(">") + `","n":"` + hashOf("1") + `","null":null}}`,
		},
		{
			name:   "quoted names",
			rules:  []Rule{one(ActionDrop, `metadata.annotations['a.b/c']`, `data["it's"]`, "data['*']")},
			before: `{"metadata":{"annotations":{"a.b/c":1,"a":{"b/c":2}}},"data":{"it's":1,"*":2,"x":3}}`,
			after:  `{"metadata":{"annotations":{"a":{"b/c":2}}},"data":{"x":3}}`,
		},
		{
			name:   "keep only",
			rules:  []Rule{one(ActionKeep, "spec.replicas", "spec.t.c[*].image", "metadata.annotations.a")},
			before: `{"kind":"K","metadata":{"name":"n","annotations":{"a":1,"b":2},"x":3},"spec":{"x":1,"replicas":{"any":[1.0]},"t":{"y":2,"c":[{"image":"i","env":[]},7,[],null]}},"status":{"s":1}}`,
			after:  `{"kind":"K","metadata":{"name":"n","annotations":{"a":1},"x":3},"spec":{"replicas":{"any":[1.0]},"t":{"c":[{"image":"i"},null,null,null]}},"status":{"s":1}}`,
		},
		{
			name:   "keep only, where types are others",
			rules:  []Rule{one(ActionKeep, "spec.a.b", "list[*].x")},
			before: `{"spec":{"a":"secret","b":1},"list":{"x":1}}`,
			after:  `{"spec":{}}`,
		},
		{
			name:   "keep only leaves empty parents",
			rules:  []Rule{one(ActionKeep, "spec.a.b", "list[*].x")},
			before: `{"spec":{"a":{"c":1}},"list":[{"y":1},{"x":2}]}`,
			after:  `{"spec":{"a":{}},"list":[{},{"x":2}]}`,
		},
		{
			name:   "what stays is in all keep-only rules",
			rules:  []Rule{one(ActionKeep, "spec.a", "spec.b"), one(ActionKeep, "spec.b", "spec.c"), one(ActionKeep, "data.x")},
			before: `{"spec":{"a":1,"b":2,"c":3},"data":{"x":1,"y":2}}`,
			after:  `{"spec":{"b":2},"data":{"x":1}}`,
		},
		{
			name:   "the strongest rule holds, in any order",
			rules:  []Rule{one(ActionReveal, "data.*"), one(ActionHash, "data.*"), one(ActionMask, "data.m", "data.d"), one(ActionDrop, "data.d"), one(ActionKeep, "data.d", "data.m", "data.h")},
			before: `{"data":{"h":"h","m":"m","d":"d","k":"k"}}`,
			after:  `{"data":{"h":"` + hashOf("h") + `","m":"XXXXXX"}}`,
		},
		{
			name:   "a stronger rule around a weaker one",
			rules:  []Rule{one(ActionMask, "data"), one(ActionKeep, "data.a"), one(ActionDrop, "spec"), one(ActionMask, "spec.x")},
			before: `{"data":{"a":"a"},"spec":{"x":1}}`,
			after:  `{"data":"XXXXXX"}`,
		},
		{
			name:   "environment stays masked beside rules",
			rules:  []Rule{one(ActionKeep, "spec.c[*].env[*].value", "spec.c[*].env[*].name"), one(ActionDrop, "spec.c[*].env[*].secret")},
			before: `{"spec":{"c":[{"image":"i","env":[{"name":"A","value":"a","secret":1,"other":2}]}]}}`,
			after:  `{"spec":{"c":[{"env":[{"name":"A","value":"XXXXXX"}]}]}}`,
		},
		{
			name:   "environment hashed, dropped, or revealed",
			rules:  []Rule{one(ActionHash, "h.env[*].value"), one(ActionDrop, "d.env[*].value"), one(ActionReveal, "r.env[*].value", "s"), one(ActionReveal, "t.env[*].name")},
			before: `{"h":{"env":[{"value":"v"}]},"d":{"env":[{"name":"n","value":"v"}]},"r":{"env":[{"value":"v"}]},"s":[{"x":{"env":[{"value":"v"}]}}],"t":{"env":[{"name":"n","value":"v"}]}}`,
			after:  `{"h":{"env":[{"value":"` + hashOf("v") + `"}]},"d":{"env":[{"name":"n"}]},"r":{"env":[{"value":"v"}]},"s":[{"x":{"env":[{"value":"v"}]}}],"t":{"env":[{"name":"n","value":"XXXXXX"}]}}`,
		},
		{
			name:   "what is removed by default is not revealed",
			rules:  []Rule{one(ActionReveal, "metadata.annotations", "metadata.managedFields")},
			before: `{"metadata":{"managedFields":[],"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}}}`,
			after:  `{"metadata":{"annotations":{}}}`,
		},
		{
			name: "secret: a * reveals nothing", resource: "secrets",
			rules:  []Rule{{Match: Match{Resource: "*"}, Action: ActionReveal, Paths: []string{"data"}}, {Match: Match{Group: "*", Resource: "secrets"}, Action: ActionReveal, Paths: []string{"data.*"}}},
			before: `{"data":{"a":"c2VjcmV0"}}`,
			after:  `{"data":{"a":"WFhYWFhY"}}`,
		},
		{
			name: "secret: revealed by name", resource: "secrets",
			rules:  []Rule{{Match: Match{Resource: "secrets"}, Action: ActionReveal, Paths: []string{"data['tls.crt']"}}},
			before: `{"data":{"tls.crt":"Y2VydA==","tls.key":"a2V5"},"stringData":{"x":"y"}}`,
			after:  `{"data":{"tls.crt":"Y2VydA==","tls.key":"WFhYWFhY"},"stringData":{"x":"XXXXXX"}}`,
		},
		{
			name: "secret: hashes and masks are valid data", resource: "secrets",
			rules:  []Rule{{Match: anyKind, Action: ActionHash, Paths: []string{"data.h", "stringData.h"}, Salt: []byte(salt)}, {Match: anyKind, Action: ActionMask, Paths: []string{"data.m"}}},
			before: `{"data":{"h":"aA==","m":"bQ=="},"stringData":{"h":"h"}}`,
			after:  `{"data":{"h":"` + base64.StdEncoding.EncodeToString([]byte(hashOf("aA=="))) + `","m":"WFhYWFhY"},"stringData":{"h":"` + hashOf("h") + `"}}`,
		},
		{
			name:   "names with escapes in the document",
			rules:  []Rule{one(ActionDrop, "data.secret"), one(ActionMask, "d\u00e9[*].x")},
			before: `{"data":{"s\u0065cret":1,"secret":2},"d\u00e9":[{"\u0078":"v"}]}`,
			after:  `{"data":{},"d\u00e9":[{"\u0078":"XXXXXX"}]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.resource == "" {
				c.resource = "configmaps"
			}
			for _, link := range []Link{LinkV1, LinkV2} {
				got, err := compiledRules(t, link, c.rules...).Apply(nil, "", c.resource, "shop", []byte(c.before))
				require.NoError(t, err)
				require.Equal(t, c.after, string(got))
				require.True(t, json.Valid(got))
			}
		})
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		match                      Match
		group, resource, namespace string
		want                       bool
	}{
		{Match{Group: "apps", Resource: "deployments"}, "apps", "deployments", "a", true},
		{Match{Group: "apps", Resource: "deployments"}, "apps", "deployments", "", true},
		{Match{Group: "apps", Resource: "deployments"}, "", "deployments", "a", false},
		{Match{Group: "apps", Resource: "*"}, "apps", "statefulsets", "a", true},
		{Match{Group: "apps", Resource: "*"}, "", "pods", "a", false},
		{Match{Group: "*", Resource: "pods"}, "metrics.k8s.io", "pods", "a", true},
		{Match{Resource: "pods", Namespaces: []string{"a", "team-*"}}, "", "pods", "a", true},
		{Match{Resource: "pods", Namespaces: []string{"a", "team-*"}}, "", "pods", "team-x", true},
		{Match{Resource: "pods", Namespaces: []string{"a", "team-*"}}, "", "pods", "steam-x", false},
		{Match{Resource: "pods", Namespaces: []string{"*-dev-*"}}, "", "pods", "x-dev-1", true},
		{Match{Resource: "nodes", Namespaces: []string{"*"}}, "", "nodes", "", false},
	} {
		transform := compiledRules(t, LinkV2, Rule{Match: c.match, Action: ActionDrop, Paths: []string{"x"}})
		for range 2 { // from the cache the second time
			got, err := transform.Apply(nil, c.group, c.resource, c.namespace, []byte(`{"x":1}`))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got) == "{}", "%+v", c)
		}
		holding, err := transform.Explain(c.group, c.resource, c.namespace, []byte(`{"x":1}`))
		require.NoError(t, err)
		require.Equal(t, c.want, len(holding) == 1)
	}
}

// Rules of other kinds and namespaces change nothing and copy nothing.
func TestObjectsWithoutRulesAreNotCopied(t *testing.T) {
	transform := compiledRules(t, LinkV2, Rule{Match: Match{Resource: "pods", Namespaces: []string{"other"}}, Action: ActionDrop, Paths: []string{"spec"}})
	doc := []byte(`{"spec":1}`)
	got, err := transform.Apply(nil, "", "pods", "shop", doc)
	require.NoError(t, err)
	require.Same(t, &doc[0], &got[0])
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = transform.Apply(nil, "", "pods", "shop", doc)
		_, _ = transform.Apply(nil, "apps", "deployments", "shop", doc)
	}))
}

func TestCachesAreBounded(t *testing.T) {
	transform := compiledRules(t, LinkV2, Rule{Match: Match{Resource: "*", Namespaces: []string{"a*"}}, Action: ActionDrop, Paths: []string{"x"}})
	for i := range maxCached + 10 {
		for _, where := range [][2]string{{"pods", fmt.Sprint("a", i)}, {fmt.Sprint("kind", i), "a"}} {
			got, err := transform.Apply(nil, "", where[0], where[1], []byte(`{"x":1}`))
			require.NoError(t, err)
			require.Equal(t, "{}", string(got))
		}
	}
	known := *transform.kinds.known.Load()
	require.Len(t, known, maxCached)
	require.Len(t, known[groupResource{"", "pods"}].namespaces, maxCached)
	require.Len(t, known[groupResource{"", "pods"}].graphs, 1)
}

func TestProblems(t *testing.T) {
	_, problems := Compile(LinkV1, []Rule{
		{},
		{Match: Match{Group: "Apps", Resource: "Pods", Namespaces: []string{"a", "[a]"}}, Action: "erase", Paths: []string{"a"}},
		{Match: anyKind, Action: ActionHash, Paths: []string{"a", "", "a..b", "kind", "*", "metadata", "metadata.*", "*.labels.x", "metadata.ownerReferences[*].name", "metadata['uid']"}},
		{Match: anyKind, Action: ActionHash, Paths: []string{"a"}, Salt: []byte("short")},
		{Match: anyKind, Action: ActionDrop, Paths: []string{"a"}, Salt: []byte(salt)},
		{Match: anyKind, Action: ActionKeep, Paths: []string{"spec", "metadata.annotations", "*.a", "metadata.annotations.x", "metadata.*.x"}},
	})
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("[%d].%s: %s", p.Rule, p.Field, p.Message))
		require.NotContains(t, p.Message, "short")
	}
	stay := func(field, name string) string {
		return field + ": " + name + " must stay: objects are told apart by it"
	}
	require.Equal(t, []string{
		`[0].match.resource: missing: a plural name such as "pods", or "*"`,
		`[0].action: missing: use one of drop, mask, hash, keep, reveal`,
		`[0].paths: missing: name at least one field`,
		`[1].match.group: "Apps" must be an API group in lower case, "*", or empty for the core group`,
		`[1].match.resource: "Pods" must be a plural name in lower case, such as "pods", or "*"`,
		`[1].match.namespaces[1]: "[a]" must be the name of a namespace, in which * stands for any text`,
		`[1].action: unknown value "erase": use one of drop, mask, hash, keep, reveal`,
		`[2].salt: missing: without a secret salt, what was hashed can be found by guessing`,
		`[2].paths[1]: is empty: name a field, such as spec.replicas`,
		`[2].paths[2]: has an empty name: a dot too many`,
		stay(`[2].paths[3]`, "kind"),
		stay(`[2].paths[4]`, "apiVersion"),
		stay(`[2].paths[5]`, "metadata.name"),
		stay(`[2].paths[6]`, "metadata.name"),
		stay(`[2].paths[7]`, "apiVersion"),
		stay(`[2].paths[8]`, "metadata.ownerReferences"),
		stay(`[2].paths[9]`, "metadata.uid"),
		`[3].salt: must be 16 bytes or more, random ones at best`,
		`[4].salt: only a rule that hashes has a salt`,
		`[5].paths[0]: keeps all of spec, so that nothing would be removed: name what of it stays`,
		`[5].paths[1]: keeps all of metadata.annotations, so that nothing would be removed: name what of it stays`,
		stay(`[5].paths[2]`, "apiVersion"),
		stay(`[5].paths[4]`, "metadata.name"),
	}, got)
}

func TestRulesAreBounded(t *testing.T) {
	many := one(ActionDrop)
	for i := range maxPaths {
		many.Paths = append(many.Paths, fmt.Sprintf("spec.a%d.b", i))
	}
	compiledRules(t, LinkV1, many)
	_, problems := Compile(LinkV1, []Rule{many, one(ActionDrop, "x")})
	require.Equal(t, []Problem{{Rule: -1, Message: "the rules have 1001 paths together, 1000 at most"}}, problems)

	// Each of these paths doubles the places; a drop around them does not hide that.
	explosive := one(ActionMask)
	for i := range 30 {
		steps := []string{"spec"}
		for j := range 30 {
			steps = append(steps, map[bool]string{true: "a", false: "*"}[i == j])
		}
		explosive.Paths = append(explosive.Paths, strings.Join(steps, "."))
	}
	began := time.Now()
	_, problems = Compile(LinkV1, []Rule{explosive, one(ActionDrop, "spec")})
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].Message, "too many paths with *")
	require.Less(t, time.Since(began), 10*time.Second)
}

func TestHash(t *testing.T) {
	a, b := one(ActionDrop, "data.a", "data['b']"), one(ActionHash, "data.c")
	base := compiledRules(t, LinkV1, a, b).Hash()
	require.Equal(t, base, compiledRules(t, LinkV1, b, one(ActionDrop, "data.b", "data['a']")).Hash(), "order and spelling do not matter")
	other := b
	other.Salt = []byte(salt + "!")
	elsewhere := a
	elsewhere.Match.Namespaces = []string{"x"}
	seen := map[[16]byte]bool{base: true}
	for _, different := range []*Transform{
		New(LinkV1), New(LinkV2), compiledRules(t, LinkV2, a, b), compiledRules(t, LinkV1, a, other),
		compiledRules(t, LinkV1, elsewhere, b), compiledRules(t, LinkV1, a), compiledRules(t, LinkV1, one(ActionMask, "data.a", "data.b"), b),
	} {
		require.False(t, seen[different.Hash()])
		seen[different.Hash()] = true
	}
	require.Equal(t, "4184177b40aea8a0ea5d80fe3204e833", fmt.Sprintf("%x", New(LinkV1).Hash()), "changes only together with version")
}

func TestExplain(t *testing.T) {
	transform := compiledRules(t, LinkV1, one(ActionDrop, "data.*", "x[*].y", "none"), Rule{Match: Match{Resource: "pods"}, Action: ActionDrop, Paths: []string{"a"}}, one(ActionMask, "x"))
	got, err := transform.Explain("", "configmaps", "", []byte(`{"data":{"a":1,"b":2},"x":[{"y":1},{"z":2}]}`))
	require.NoError(t, err)
	require.Equal(t, []Holding{
		{Rule: 0, Action: ActionDrop, Paths: []Found{{"data.*", 2}, {"x[*].y", 1}, {"none", 0}}},
		{Rule: 2, Action: ActionMask, Paths: []Found{{"x", 1}}},
	}, got)
	_, err = transform.Explain("", "configmaps", "", []byte(`{`))
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
}
