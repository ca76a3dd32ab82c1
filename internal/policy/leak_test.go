// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A value that is hidden in one place must not be visible in another (case B100).
func TestSecretAppliedByKubectl(t *testing.T) {
	const canary = "canary-7f3a"
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	doc := fmt.Sprintf(`{"apiVersion":"v1","data":{"password":"%[2]s"},"stringData":{"password":"%[1]s"},"kind":"Secret","metadata":{"annotations":{`+
		`"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"v1\",\"data\":{\"password\":\"%[2]s\"},\"stringData\":{\"password\":\"%[1]s\"},\"kind\":\"Secret\"}\n"},`+
		`"managedFields":[{"fieldsV1":{"f:data":{"f:password":"%[1]s"}}}],"name":"db","namespace":"shop","uid":"u"},"type":"Opaque"}`, canary, encoded)
	for _, transform := range []*Transform{
		New(LinkV1), New(LinkV2),
		compiledRules(t, LinkV1, Rule{Match: Match{Resource: "secrets"}, Action: ActionKeep, Paths: []string{"data.password"}}),
		compiledRules(t, LinkV1, Rule{Match: anyKind, Action: ActionHash, Paths: []string{"data.*", "stringData.*"}, Salt: []byte(salt)}),
		compiledRules(t, LinkV1, Rule{Match: anyKind, Action: ActionReveal, Paths: []string{"metadata.annotations", "data", "stringData"}}),
	} {
		got, err := transform.Apply(nil, "", "secrets", "shop", []byte(doc))
		require.NoError(t, err)
		require.NotContains(t, string(got), canary)
		require.NotContains(t, string(got), encoded)
		require.Contains(t, string(got), `"password":"`, "the name of the entry stays")
		require.Contains(t, string(got), `"name":"db","namespace":"shop","uid":"u"`)
	}
}

func TestEnvironmentOfAllContainers(t *testing.T) {
	const canary = "canary-7f3a"
	template := `{"spec":{`
	for i, name := range []string{"containers", "initContainers", "ephemeralContainers"} {
		if i > 0 {
			template += ","
		}
		template += fmt.Sprintf(`"%s":[{"name":"%s","env":[{"name":"A","value":"%s%d"},{"name":"B","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]`, name, name, canary, i)
	}
	template += "}}"
	applied := strings.ReplaceAll(strings.ReplaceAll(template, `\`, `\\`), `"`, `\"`)
	metadata := `"metadata":{"name":"n","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"` + applied + `"}}`
	for resource, doc := range map[groupResource]string{
		{"", "pods"}:                  `{` + metadata + `,` + template[1:],
		{"apps", "deployments"}:       `{` + metadata + `,"spec":{"template":` + template + `}}`,
		{"batch", "cronjobs"}:         `{` + metadata + `,"spec":{"jobTemplate":{"spec":{"template":` + template + `}}}}`,
		{"example.com", "frameworks"}: `{` + metadata + `,"spec":{"deep":[[{"template":` + template + `}]]}}`,
	} {
		for _, transform := range []*Transform{
			New(LinkV1), New(LinkV2),
			compiledRules(t, LinkV1, Rule{Match: anyKind, Action: ActionDrop, Paths: []string{"spec.template.spec.containers[*].image", "spec.x.*"}}),
			compiledRules(t, LinkV1, Rule{Match: anyKind, Action: ActionReveal, Paths: []string{"spec.other", "metadata.annotations", "metadata.managedFields"}}),
		} {
			got, err := transform.Apply(nil, resource.group, resource.resource, "shop", []byte(doc))
			require.NoError(t, err)
			require.NotContains(t, string(got), canary)
			require.Equal(t, 3, strings.Count(string(got), `"valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}`))
			require.Equal(t, 3, strings.Count(string(got), mask))
		}
	}
}

// Errors are logged, so they must not quote what they are about.
func TestErrorsQuoteNothing(t *testing.T) {
	_, err := New(LinkV1).Apply(nil, "", "secrets", "shop", []byte(`{"data":{"password":"canary-7f3a`))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "canary")
}

func BenchmarkApplyWithRules(b *testing.B) {
	transform := compiledRules(b, LinkV2,
		Rule{Match: anyKind, Action: ActionDrop, Paths: []string{"metadata.annotations['example.com/x']", "status.conditions[*].message"}},
		Rule{Match: Match{Resource: "pods", Namespaces: []string{"shop-*"}}, Action: ActionMask, Paths: []string{"spec.containers[*].args", "spec.volumes[*].hostPath.path"}})
	buf := make([]byte, 0, 8<<10)
	benchmark(b, "testdata/pod-before.json", func(doc []byte) error {
		_, err := transform.Apply(buf, "", "pods", "shop-1", doc)
		return err
	})
}
