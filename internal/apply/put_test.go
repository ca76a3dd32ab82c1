// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"synchronizer"
	"synchronizer/internal/rawjson"
	"synchronizer/test/kubetest"
)

var (
	jobs        = synchronizer.Kind{Group: "batch", Version: "v1", Resource: "jobs"}
	rolesKind   = synchronizer.Kind{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	rbacVersion = "rbac.authorization.k8s.io/v1"
)

// deployment has two containers with environment values.
func deployment(name string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + name + `","labels":{"team":"a"}},"spec":{"replicas":1,
		"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[
		{"name":"web","image":"web:1","env":[{"name":"KEY","value":"one"},{"name":"PLACE","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]},
		{"name":"side","image":"side:1","env":[{"name":"KEY","value":"two"}]}]}}}}`
}

func TestPutCreatesChangesAndIsDone(t *testing.T) {
	e := start(t)
	doc := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}`
	result := e.puts(Applied, configmaps, "c", doc)
	require.Equal(t, `"`+result.ResourceVersion+`"`, e.at(configmaps, "c", "metadata", "resourceVersion"))
	require.Equal(t, Result{Outcome: Unchanged, ResourceVersion: result.ResourceVersion}, e.puts(Unchanged, configmaps, "c", doc))

	changed := e.puts(Applied, configmaps, "c", `{"metadata":{"labels":{"l":"1"}},"data":{"a":"2","b":"3"}}`)
	require.NotEqual(t, result.ResourceVersion, changed.ResourceVersion)
	require.JSONEq(t, `{"a":"2","b":"3"}`, e.at(configmaps, "c", "data"))
	require.Equal(t, `{"l":"1"}`, e.at(configmaps, "c", "metadata", "labels"))
	require.Len(t, e.cluster.updated, 1, "nothing was sent where nothing differed")
}

func TestB006EmptyDefaultsAreNoDifference(t *testing.T) {
	e := start(t)
	// As a program with typed structs prints it.
	typed := `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d","creationTimestamp":null},"spec":{"replicas":1,
		"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"},"creationTimestamp":null},"spec":{"containers":[
		{"name":"web","image":"web:1","resources":{}}]}},"strategy":{}},"status":{}}`
	first := e.puts(Applied, deployments, "d", typed)
	created := e.at(deployments, "d", "metadata", "creationTimestamp")
	second := e.puts(Unchanged, deployments, "d", typed)
	require.Equal(t, first.ResourceVersion, second.ResourceVersion)
	require.Equal(t, `"`+first.ResourceVersion+`"`, e.at(deployments, "d", "metadata", "resourceVersion"))

	before := e.shows(deployments, "d")
	change := `{"metadata":{"creationTimestamp":null},"spec":{"replicas":2}}`
	result := e.patches(Applied, deployments, "d", change, sumOf(t, before, change))
	require.False(t, result.AskObject)
	after := e.shows(deployments, "d")
	require.Equal(t, created, e.at(deployments, "d", "metadata", "creationTimestamp"))
	for _, sent := range e.cluster.updated {
		v, err := read(sent)
		require.NoError(t, err)
		requireNothingOwned(t, [][]byte{sent}, v.get("status"))
	}
	require.Equal(t, sumOf(t, before, `{"metadata":{"generation":2,"resourceVersion":null},"spec":{"replicas":2}}`), sumOf(t, after, `{"metadata":{"resourceVersion":null}}`), "replicas only")
}

// TestB006NullInACustomResource: there the API server would keep what it is sent.
func TestB006NullInACustomResource(t *testing.T) {
	e := start(t)
	defineWidgets(t)
	e.make(widgets, `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"template":{"metadata":{"labels":{"a":"1"}}}}}`)
	version := e.at(widgets, "w", "metadata", "resourceVersion")
	e.puts(Unchanged, widgets, "w", `{"metadata":{"name":"w","creationTimestamp":null},"spec":{"template":{"metadata":{"creationTimestamp":null,"labels":{"a":"1"}}}},"status":{}}`)
	require.Equal(t, version, e.at(widgets, "w", "metadata", "resourceVersion"))
}

func TestB021NumbersArriveOrAreRefused(t *testing.T) {
	e := start(t)
	defineWidgets(t)
	widget := func(spec string) string {
		return `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w"},"spec":` + spec + `}`
	}
	for _, of := range []string{"a new object", "an existing one"} {
		for _, number := range []string{"18446744073709551615", "1e400"} {
			result := e.puts(Refused, widgets, "w", widget(`{"replicas":3,"bad":`+number+`}`))
			require.Equal(t, ReasonInvalid, result.Reason, of)
			require.Contains(t, result.Message, "spec.bad")
		}
		e.puts(Applied, widgets, "w", widget(`{"replicas":3,"ratio":0.1,"big":9007199254740993,"of":"`+of+`"}`))
		require.Equal(t, "3", e.at(widgets, "w", "spec", "replicas"))
		require.Equal(t, "0.1", e.at(widgets, "w", "spec", "ratio"))
		require.Equal(t, "9007199254740993", e.at(widgets, "w", "spec", "big"))
	}
}

func TestB034ServerOwnedFieldsAreIgnored(t *testing.T) {
	e := start(t)
	foreign := func(replicas int) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":%q,"uid":"11111111-2222-4333-8444-555555555555",
			"resourceVersion":"12","creationTimestamp":"2001-01-01T00:00:00Z","generation":77,"selfLink":"/elsewhere","managedFields":[{"manager":"m","operation":"Update","apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{}}],
			"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"99999999-2222-4333-8444-555555555555"}],"labels":{"new":"1"}},
			"spec":{"replicas":%d,"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}},"status":{"replicas":55}}`, e.namespace, replicas)
	}
	check := func(uid string, replicas int) {
		require.Equal(t, fmt.Sprint(replicas), e.at(deployments, "d", "spec", "replicas"))
		require.Equal(t, `"1"`, e.at(deployments, "d", "metadata", "labels", "new"))
		require.NotContains(t, e.at(deployments, "d", "metadata", "uid"), "11111111")
		if uid != "" {
			require.Equal(t, uid, e.at(deployments, "d", "metadata", "uid"))
		}
		require.NotContains(t, e.at(deployments, "d", "metadata", "creationTimestamp"), "2001")
		require.Empty(t, e.at(deployments, "d", "metadata", "ownerReferences"), "its owner is dead, and with it the object would go")
		require.Empty(t, e.at(deployments, "d", "status", "replicas"))
	}
	e.puts(Applied, deployments, "d", foreign(2)) // (a) missing
	check("", 2)
	require.Equal(t, "1", e.at(deployments, "d", "metadata", "generation"))

	_, err := server.Do(t.Context(), http.MethodDelete, e.path(deployments, "d"), "", nil)
	require.NoError(t, err)
	e.make(deployments, deployment("d")) // (b) present, another uid
	uid := e.at(deployments, "d", "metadata", "uid")
	e.puts(Applied, deployments, "d", foreign(3))
	check(uid, 3)
	require.Equal(t, `"a"`, e.at(deployments, "d", "metadata", "labels", "team"), "existing labels stay")
	require.Len(t, e.cluster.updated, 1, "no loop of conflicts")
}

func TestB035PutWhileTheObjectIsTerminating(t *testing.T) {
	e := start(t)
	doc := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","finalizers":["example.com/hold"]},"data":{"a":"1"}}`
	e.puts(Applied, configmaps, "c", doc)
	result, err := e.Delete(t.Context(), configmaps, e.namespace, "c")
	require.NoError(t, err)
	require.Equal(t, Applied, result.Outcome)

	gets := 0
	e.cluster.meanwhile(func() { gets++ })
	result = e.puts(Failed, configmaps, "c", strings.Replace(doc, `"a":"1"`, `"a":"2"`, 1))
	require.Equal(t, ReasonTerminating, result.Reason)
	require.Equal(t, e.options.Attempts, gets, "bounded retries")
	require.Empty(t, e.cluster.updated)
	require.JSONEq(t, `{"a":"1"}`, e.at(configmaps, "c", "data"))

	_, err = e.Delete(t.Context(), configmaps, e.namespace, "c")
	require.NoError(t, err, "a second delete is harmless")
	e.alter(configmaps, "c", `{"metadata":{"finalizers":null}}`)
	_, err = server.Get(t.Context(), e.path(configmaps, "c"))
	require.True(t, apierrors.IsNotFound(err), "gone, and stays gone")

	// It goes away between two attempts: then it is created again.
	e.cluster.meanwhile(nil)
	e.puts(Applied, configmaps, "c", doc)
	_, err = e.Delete(t.Context(), configmaps, e.namespace, "c")
	require.NoError(t, err)
	gets = 0
	e.cluster.meanwhile(func() {
		if gets++; gets == 2 {
			e.alter(configmaps, "c", `{"metadata":{"finalizers":null}}`)
		}
	})
	e.puts(Applied, configmaps, "c", strings.Replace(doc, `"a":"1"`, `"a":"2"`, 1))
	require.JSONEq(t, `{"a":"2"}`, e.at(configmaps, "c", "data"))
}

func TestB085NamesWithColons(t *testing.T) {
	e := start(t)
	doc := func(verb string) string {
		return `{"apiVersion":"` + rbacVersion + `","kind":"Role","metadata":{"name":"team:reader"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["` + verb + `"]}]}`
	}
	e.puts(Applied, rolesKind, "team:reader", doc("get"))
	e.puts(Applied, rolesKind, "team:reader", doc("list"))
	require.Equal(t, `"team:reader"`, e.at(rolesKind, "team:reader", "metadata", "name"))
	require.Contains(t, e.at(rolesKind, "team:reader", "rules"), "list")
	before, change := e.shows(rolesKind, "team:reader"), `{"metadata":{"resourceVersion":null},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["watch"]}]}`
	e.patches(Applied, rolesKind, "team:reader", change, sumOf(t, before, change))
	require.Contains(t, e.at(rolesKind, "team:reader", "rules"), "watch")
	result, err := e.Delete(t.Context(), rolesKind, e.namespace, "team:reader")
	require.NoError(t, err)
	require.Equal(t, Applied, result.Outcome)
	_, err = server.Get(t.Context(), e.path(rolesKind, "team:reader"))
	require.Error(t, err)
}

func TestB094UpdateWithoutTheRightToCreate(t *testing.T) {
	e := start(t)
	e.make(configmaps, `{"metadata":{"name":"here"},"data":{"a":"1"}}`)
	limited := e.as("updater", kubetest.PolicyRule{Namespace: e.namespace, APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "update", "patch"}})
	watch := &watched{Cluster: limited.options.Cluster}
	limited.options.Cluster = watch

	result, err := limited.Put(t.Context(), configmaps, e.namespace, "here", []byte(`{"data":{"a":"2"}}`))
	require.NoError(t, err)
	require.Equal(t, Applied, result.Outcome)
	require.JSONEq(t, `{"a":"2"}`, e.at(configmaps, "here", "data"))

	result, err = limited.Put(t.Context(), configmaps, e.namespace, "missing", []byte(`{"data":{"a":"2"}}`))
	require.NoError(t, err)
	require.Equal(t, Refused, result.Outcome)
	require.Equal(t, ReasonForbidden, result.Reason)
	require.Contains(t, result.Message, "cannot create resource")
	require.Len(t, watch.created, 1, "no endless retry")
	require.Len(t, watch.updated, 1)

	// Other objects are not affected.
	result, err = limited.Put(t.Context(), configmaps, e.namespace, "here", []byte(`{"data":{"a":"3"}}`))
	require.NoError(t, err)
	require.Equal(t, Applied, result.Outcome)
}

func TestMaskedEnvironmentGoesBackAsItWas(t *testing.T) {
	e := start(t)
	e.make(deployments, deployment("d"))
	sent := e.shows(deployments, "d")
	require.Contains(t, sent, "XXXXXX")
	require.NotContains(t, sent, `"one"`)
	result := e.puts(Unchanged, deployments, "d", sent)
	require.Empty(t, e.cluster.updated)
	require.Empty(t, result.Message)

	e.puts(Applied, deployments, "d", strings.Replace(strings.Replace(sent, `"replicas":1`, `"replicas":2`, 1), `"web:1"`, `"web:2"`, 1))
	spec := e.at(deployments, "d", "spec")
	for _, part := range []string{`"replicas":2`, `"web:2"`, `"value":"one"`, `"value":"two"`} {
		require.Contains(t, spec, part)
	}

	result = e.puts(Refused, deployments, "other", strings.ReplaceAll(sent, `"name":"d"`, `"name":"other"`))
	require.Equal(t, ReasonMasked, result.Reason)
	require.Equal(t, `masked value at spec.template.spec.containers[0].env[0].value, spec.template.spec.containers[1].env[0].value`, result.Message)
	_, err := server.Get(t.Context(), e.path(deployments, "other"))
	require.Error(t, err)
}

func TestMaskedSecretGoesBackAsItWas(t *testing.T) {
	e := start(t)
	e.make(secrets, `{"metadata":{"name":"s"},"data":{"user":"b25l","password":"dHdv"}}`)
	sent := e.shows(secrets, "s")
	require.NotContains(t, sent, "dHdv")
	e.puts(Applied, secrets, "s", strings.Replace(sent, `"user":"WFhYWFhY"`, `"user":"bmV3"`, 1))
	require.JSONEq(t, `{"user":"bmV3","password":"dHdv"}`, e.at(secrets, "s", "data"))
	result := e.puts(Refused, secrets, "s", strings.Replace(sent, `"user"`, `"user2"`, 1))
	require.Equal(t, "masked value at data.user2", result.Message)
}

func TestStatusOfACustomResourceSurvives(t *testing.T) {
	e := start(t)
	defineWidgets(t) // its status is no subresource
	e.make(widgets, `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"s"},"spec":{"a":1},"status":{"x":1}}`)
	e.puts(Applied, widgets, "s", `{"spec":{"a":2},"status":{"x":2}}`)
	require.JSONEq(t, `{"x":1}`, e.at(widgets, "s", "status"))
}

func TestIdentityMustBeThatOfTheMessage(t *testing.T) {
	e := start(t)
	for doc, message := range map[string]string{
		`{"metadata":{"name":"y"}}`:        `metadata.name is "y" and not "c"`,
		`{"metadata":{"namespace":"y"}}`:   `metadata.namespace is "y" and not "` + e.namespace + `"`,
		`{"apiVersion":"v2"}`:              `apiVersion is "v2" and not "v1"`,
		`[]`:                               "reading desired object: invalid: it is not a JSON object",
		`{"data":`:                         "reading desired object: invalid JSON at byte 8: expected a value",
		`{"metadata":{"generateName":"x"}`: "reading desired object: invalid JSON at byte 32: unexpected end",
	} {
		result := e.puts(Refused, configmaps, "c", doc)
		require.Equal(t, ReasonInvalid, result.Reason)
		require.Equal(t, message, result.Message)
	}
	result := e.puts(Refused, configmaps, "", `{"metadata":{"generateName":"x-"}}`)
	require.Contains(t, result.Message, "no name")
	e.make(configmaps, `{"metadata":{"name":"c"},"data":{"a":"1"}}`)
	result = e.puts(Refused, configmaps, "c", `{"apiVersion":"v1","kind":"Secret","data":{"a":"2"}}`)
	require.Equal(t, `the desired object is a "Secret", not a "ConfigMap"`, result.Message)
	e.puts(Applied, configmaps, "g", `{"metadata":{"generateName":"x-"}}`)
	require.Equal(t, `"g"`, e.at(configmaps, "g", "metadata", "name"))
}

func TestSecretsOfRefusalsAreNotNamed(t *testing.T) {
	e := start(t)
	job := `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i","env":[{"name":"KEY","value":"hunter2"}]}]}}}}`
	e.make(jobs, job)
	desired := rawjsonReplace(t, e.shows(jobs, "j"), "XXXXXX", "hunter3")
	result := e.puts(Refused, jobs, "j", desired)
	require.Equal(t, ReasonImmutable, result.Reason)
	require.Contains(t, result.Message, "spec.template")
	require.NotContains(t, result.Message, "hunter")
}

func rawjsonReplace(t *testing.T, doc, from, to string) string {
	t.Helper()
	require.Contains(t, doc, from)
	doc = strings.ReplaceAll(doc, from, to)
	require.True(t, rawjson.Valid([]byte(doc)))
	return doc
}

func TestCreateWithoutTheRightToRead(t *testing.T) {
	e := start(t)
	creator := e.as("creator", kubetest.PolicyRule{Namespace: e.namespace, APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}})
	result, err := creator.Put(t.Context(), configmaps, e.namespace, "c", []byte(`{"data":{"a":"1"}}`))
	require.NoError(t, err)
	require.Equal(t, Applied, result.Outcome)
	result, err = creator.Put(t.Context(), configmaps, e.namespace, "c", []byte(`{"data":{"a":"2"}}`))
	require.NoError(t, err)
	require.Equal(t, ReasonForbidden, result.Reason)
	require.Contains(t, result.Message, "cannot get")
}

func TestUpdateWithoutTheRightToUpdate(t *testing.T) {
	e := start(t)
	e.make(deployments, deployment("d"))
	reader := e.as("reader", kubetest.PolicyRule{Namespace: e.namespace, APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "create"}})
	watch := &watched{Cluster: reader.options.Cluster}
	reader.options.Cluster = watch
	result, err := reader.Put(t.Context(), deployments, e.namespace, "d", []byte(strings.Replace(e.shows(deployments, "d"), `"replicas":1`, `"replicas":2`, 1)))
	require.NoError(t, err)
	require.Equal(t, ReasonForbidden, result.Reason)
	require.Contains(t, result.Message, "cannot update")
	require.Empty(t, watch.created)
}
