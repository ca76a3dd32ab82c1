// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/patch"
	"synchronizer/internal/policy"
)

// sumOf is checksum v1 of a document with a patch applied.
func sumOf(t *testing.T, doc, change string) string {
	t.Helper()
	result, err := patch.ApplyV1([]byte(doc), []byte(change))
	require.NoError(t, err)
	sum, err := checksum.V1(result)
	require.NoError(t, err)
	return sum
}

// patches patches an object and wants an outcome.
func (e *environment) patches(want Outcome, kind synchronizer.Kind, name, change, sum string) Result {
	e.t.Helper()
	result, err := e.Patch(e.t.Context(), kind, e.namespace, name, []byte(change), sum)
	require.NoError(e.t, err)
	require.Equal(e.t, want, result.Outcome, "%+v", result)
	return result
}

func TestB002BigIntegersInPatches(t *testing.T) {
	e := start(t)
	defineWidgets(t)
	e.make(widgets, `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"counter":9007199254740993}}`)
	const content = `{"metadata":{"resourceVersion":null,"generation":null}}`
	for _, step := range []struct{ change, counter string }{
		{`{"spec":{"counter":9007199254740992}}`, "9007199254740992"},
		{`{"metadata":{"labels":{"unrelated":"1"}}}`, "9007199254740992"},
		{`{"spec":{"counter":9223372036854775807}}`, "9223372036854775807"},
	} {
		known := e.shows(widgets, "w")
		patched, err := patch.ApplyV1([]byte(known), []byte(step.change))
		require.NoError(t, err)
		version := e.at(widgets, "w", "metadata", "resourceVersion")

		result := e.patches(Applied, widgets, "w", step.change, sumOf(t, known, step.change))
		require.NotEqual(t, version, `"`+result.ResourceVersion+`"`, "never a no-op")
		require.Equal(t, step.counter, e.at(widgets, "w", "spec", "counter"))

		// What the backend has and what the cluster has are equal.
		require.Equal(t, sumOf(t, string(patched), content), sumOf(t, e.shows(widgets, "w"), content))
		backend, err := patch.ApplyV1(patched, []byte(content))
		require.NoError(t, err)
		cluster, err := patch.ApplyV1([]byte(e.shows(widgets, "w")), []byte(content))
		require.NoError(t, err)
		a, err := checksum.V2(backend)
		require.NoError(t, err)
		b, err := checksum.V2(cluster)
		require.NoError(t, err)
		require.Equal(t, a, b, "to the digit")
	}
}

func TestPatchWithAndWithoutResourceVersion(t *testing.T) {
	e := start(t)
	e.make(deployments, deployment("d"))
	for i, change := range []string{
		`{"metadata":{"resourceVersion":null},"spec":{"replicas":5}}`, // as clients of the field need it
		`{"spec":{"replicas":6}}`,
	} {
		known := e.shows(deployments, "d")
		e.patches(Applied, deployments, "d", change, sumOf(t, known, change))
		require.Equal(t, []string{"5", "6"}[i], e.at(deployments, "d", "spec", "replicas"))
		require.Contains(t, e.at(deployments, "d", "spec"), `"one"`, "values behind masks stay")
	}
	// The checksum may be that of the result without resourceVersion all the same.
	change, known := `{"spec":{"replicas":7}}`, e.shows(deployments, "d")
	e.patches(Applied, deployments, "d", change, sumOf(t, known, `{"metadata":{"resourceVersion":null},"spec":{"replicas":7}}`))
	// A patch that changes nothing.
	known = e.shows(deployments, "d")
	result := e.patches(Unchanged, deployments, "d", `{}`, sumOf(t, known, `{}`))
	require.False(t, result.AskObject)
}

func TestPatchThatFailsAsksForTheObject(t *testing.T) {
	e := start(t)
	e.make(deployments, deployment("d"))
	known := e.shows(deployments, "d")
	masked := `{"spec":{"template":{"spec":{"containers":[{"name":"new","image":"i","env":[{"name":"KEY","value":"XXXXXX"}]}]}}}}`
	immutable := `{"spec":{"selector":{"matchLabels":{"app":"y"}}}}`
	for name, c := range map[string]struct {
		object, change, sum string
		outcome             Outcome
		reason              Reason
	}{
		"checksum of another state": {"d", `{"spec":{"replicas":5}}`, sumOf(t, known, `{"spec":{"replicas":6}}`), Failed, ReasonChecksum},
		"no checksum":               {"d", `{"spec":{"replicas":5}}`, "", Failed, ReasonChecksum},
		"not JSON":                  {"d", `{"spec":`, "x", Refused, ReasonInvalid},
		"absent object":             {"missing", `{"spec":{"replicas":5}}`, "x", Failed, ReasonNotFound},
		"mask":                      {"d", masked, sumOf(t, known, masked), Refused, ReasonMasked},
		"immutable field":           {"d", immutable, sumOf(t, known, immutable), Refused, ReasonImmutable},
	} {
		t.Run(name, func(t *testing.T) {
			version := e.at(deployments, "d", "metadata", "resourceVersion")
			result := e.patches(c.outcome, deployments, c.object, c.change, c.sum)
			require.Equal(t, c.reason, result.Reason)
			require.True(t, result.AskObject)
			require.Equal(t, version, e.at(deployments, "d", "metadata", "resourceVersion"))
		})
	}
}

func TestPatchNeedsTheStrategy(t *testing.T) {
	strategy := Copy
	a := New(Options{Policy: policy.New(policy.LinkV1), Strategy: func(synchronizer.Kind) Strategy { return strategy }})
	result, err := a.Patch(t.Context(), configmaps, "n", "c", []byte(`{}`), "")
	require.NoError(t, err)
	require.Equal(t, Result{Outcome: Refused, Reason: ReasonNotPatched, Message: "kind /v1/configmaps has strategy copy", AskObject: true}, result)

	strategy = NotConfigured
	want := Result{Outcome: Refused, Reason: ReasonNotConfigured, Message: "kind /v1/configmaps is not configured"}
	result, err = a.Patch(t.Context(), configmaps, "n", "c", []byte(`{}`), "")
	require.NoError(t, err)
	require.Equal(t, want, result)
	result, err = a.Put(t.Context(), configmaps, "n", "c", []byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, want, result)
	result, err = a.Delete(t.Context(), configmaps, "n", "c")
	require.NoError(t, err)
	require.Equal(t, want, result)
}

func TestPatchMeetsAnotherChange(t *testing.T) {
	e := start(t)
	e.make(deployments, deployment("d"))
	known := e.shows(deployments, "d")
	change := `{"metadata":{"resourceVersion":null},"spec":{"replicas":5}}`
	meanwhile := []string{`{"metadata":{"managedFields":[{}]}}`, `{"spec":{"paused":true}}`}
	once := func(act func()) func() {
		return func() { e.cluster.meanwhile(nil); act() }
	}
	// Between reading and writing only the resourceVersion changes: it is tried again.
	e.cluster.meanwhile(once(func() { e.alter(deployments, "d", meanwhile[0]) }))
	e.patches(Applied, deployments, "d", change, sumOf(t, known, change))
	require.Len(t, e.cluster.updated, 2)
	require.Equal(t, "5", e.at(deployments, "d", "spec", "replicas"))
	// The object is another one: the patch does not fit any more.
	known = e.shows(deployments, "d")
	change = `{"metadata":{"resourceVersion":null},"spec":{"replicas":6}}`
	e.cluster.meanwhile(once(func() { e.alter(deployments, "d", meanwhile[1]) }))
	result := e.patches(Failed, deployments, "d", change, sumOf(t, known, change))
	require.Equal(t, ReasonChecksum, result.Reason)
	require.True(t, result.AskObject)
	require.Equal(t, "5", e.at(deployments, "d", "spec", "replicas"))
}
