// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/kube"
	"synchronizer/internal/policy"
)

const refusedDoc = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"hunter2"}}`

// eventually puts until an outcome has a reason: admission notices its
// configuration with a delay.
func (e *environment) eventually(reason Reason, name string) Result {
	e.t.Helper()
	var result Result
	require.Eventually(e.t, func() bool {
		var err error
		result, err = e.Put(e.t.Context(), configmaps, e.namespace, name, []byte(strings.Replace(refusedDoc, `"c"`, `"`+name+`"`, 1)))
		require.NoError(e.t, err)
		if result.Reason == reason {
			return true
		}
		_, _ = server.Do(e.t.Context(), http.MethodDelete, e.path(configmaps, name), "", nil)
		return false
	}, 20*time.Second, 50*time.Millisecond, "%v", reason)
	require.Equal(e.t, Refused, result.Outcome)
	require.NotContains(e.t, result.Message, "hunter")
	return result
}

func TestQuota(t *testing.T) {
	e := start(t)
	quotas := synchronizer.Kind{Version: "v1", Resource: "resourcequotas"}
	e.make(configmaps, `{"metadata":{"name":"here"},"data":{"a":"1"}}`)
	e.make(quotas, `{"metadata":{"name":"q"},"spec":{"hard":{"count/configmaps":"1"}}}`)
	// No controller counts, so the test says what one would.
	_, err := server.Do(t.Context(), http.MethodPatch, e.path(quotas, "q")+"/status", "application/merge-patch+json",
		[]byte(`{"status":{"hard":{"count/configmaps":"1"},"used":{"count/configmaps":"1"}}}`))
	require.NoError(t, err)
	result := e.eventually(ReasonQuota, "c")
	require.Contains(t, result.Message, "exceeded quota: q")
	// The quota refuses a creation before anybody sees that the object exists.
	e.puts(Applied, configmaps, "here", `{"data":{"a":"2"}}`)
	require.JSONEq(t, `{"a":"2"}`, e.at(configmaps, "here", "data"))
}

func TestNamespaceTerminatingAndMissing(t *testing.T) {
	e := start(t)
	result, err := e.Put(t.Context(), configmaps, "nowhere", "c", []byte(refusedDoc))
	require.NoError(t, err)
	require.Equal(t, Refused, result.Outcome)
	require.Equal(t, ReasonNamespaceNotFound, result.Reason)
	require.Contains(t, result.Message, "nowhere")

	e.make(configmaps, `{"metadata":{"name":"here"},"data":{"a":"1"}}`)
	namespaces := synchronizer.Kind{Version: "v1", Resource: "namespaces"}
	result, err = e.Delete(t.Context(), namespaces, "", e.namespace)
	require.NoError(t, err)
	require.Equal(t, Applied, result.Outcome)
	result = e.eventually(ReasonNamespaceTerminating, "c")
	require.Contains(t, result.Message, "being terminated")
	e.puts(Applied, configmaps, "here", `{"data":{"a":"2"}}`)
	result, err = e.Delete(t.Context(), namespaces, "", e.namespace)
	require.NoError(t, err)
	require.NotEqual(t, Refused, result.Outcome, "a second delete is harmless")
}

// TestDeletionThatIsUnderWay: older API servers answer 409 while they empty a
// namespace.
func TestDeletionThatIsUnderWay(t *testing.T) {
	for body, want := range map[string]Outcome{
		`{"metadata":{"name":"n","deletionTimestamp":"2020-01-01T00:00:00Z"}}`: Unchanged,
		`{"metadata":{"name":"n"}}`: Failed,
	} {
		a := New(Options{Cluster: undeletable{body: body}, Policy: policy.New(policy.LinkV1), Strategy: everything})
		result, err := a.Delete(t.Context(), configmaps, "", "n")
		require.NoError(t, err)
		require.Equal(t, want, result.Outcome)
	}
}

type undeletable struct {
	failing
	body string
}

func (u undeletable) Get(context.Context, synchronizer.Kind, string, string) (synchronizer.Object, error) {
	return synchronizer.Object{Body: []byte(u.body)}, nil
}

func (u undeletable) Delete(context.Context, synchronizer.Kind, string, string) error {
	return fmt.Errorf("deleting: %w", kube.ErrConflict)
}

func TestAdmissionPolicy(t *testing.T) {
	e := start(t)
	require.NoError(t, server.Apply(t.Context(), `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refuse.example.org}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations: [{expression: "false", message: "not on a Sunday"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refuse.example.org}
spec:
  policyName: refuse.example.org
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+e.namespace+`}}}
`))
	result := e.eventually(ReasonPolicy, "c")
	require.Contains(t, result.Message, "not on a Sunday")
}

func TestAdmissionWebhook(t *testing.T) {
	e := start(t)
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &review)
		_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":false,"status":{"message":"never"}}}`, review.Request.UID)
	}))
	t.Cleanup(hook.Close)
	authority, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	require.NoError(t, err)
	manifest := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"hook.example.org"},
		"webhooks":[{"name":"hook.example.org","clientConfig":{"url":%q,"caBundle":%s},"sideEffects":"None","admissionReviewVersions":["v1"],
		"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":%q}},
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["configmaps"]}]}]}`, hook.URL, authority, e.namespace)
	require.NoError(t, server.Apply(t.Context(), manifest))
	t.Cleanup(func() { _ = server.Delete(context.WithoutCancel(t.Context()), manifest) })
	result := e.eventually(ReasonWebhook, "c")
	require.Contains(t, result.Message, "never")

	// One that cannot be reached has not decided.
	hook.Close()
	result, err = e.Put(t.Context(), configmaps, e.namespace, "c", []byte(refusedDoc))
	require.Error(t, err)
	require.Equal(t, Failed, result.Outcome)
	require.Equal(t, ReasonUnavailable, result.Reason)
}

func TestKindIsNotServed(t *testing.T) {
	e := start(t)
	kind := synchronizer.Kind{Group: "nobody.example.org", Version: "v1", Resource: "things"}
	result := e.puts(Refused, kind, "x", `{"spec":{}}`)
	require.Equal(t, ReasonNotServed, result.Reason)
	result, err := e.Delete(t.Context(), kind, e.namespace, "x")
	require.NoError(t, err)
	require.Equal(t, ReasonNotServed, result.Reason)
}

func TestImmutableConfigMapAndOtherFaults(t *testing.T) {
	e := start(t)
	e.make(configmaps, `{"metadata":{"name":"c"},"immutable":true,"data":{"a":"1"}}`)
	result := e.puts(Refused, configmaps, "c", `{"immutable":true,"data":{"a":"hunter2"}}`)
	require.Equal(t, ReasonImmutable, result.Reason)
	require.NotContains(t, result.Message, "hunter")
	result = e.puts(Refused, configmaps, "d", `{"data":{"a":["hunter2"]}}`)
	require.Equal(t, ReasonInvalid, result.Reason)
	require.NotContains(t, result.Message, "hunter")
	result = e.puts(Refused, configmaps, "d", `{"data":{"a b":"hunter2"}}`)
	require.Equal(t, ReasonInvalid, result.Reason)
	require.Contains(t, result.Message, "data[a b] (FieldValueInvalid)")
	require.NotContains(t, result.Message, "hunter")
	// What could not be created may be what changes an object that exists: the
	// required part is there already.
	e.make(deployments, deployment("d"))
	e.puts(Applied, deployments, "d", strings.Replace(e.shows(deployments, "d"), `"replicas":1`, `"replicas":4`, 1))
}

func TestDeleteIsIdempotent(t *testing.T) {
	e := start(t)
	e.make(configmaps, `{"metadata":{"name":"c"}}`)
	for _, want := range []Outcome{Applied, Unchanged} {
		result, err := e.Delete(t.Context(), configmaps, e.namespace, "c")
		require.NoError(t, err)
		require.Equal(t, Result{Outcome: want}, result)
	}
	result, err := e.Delete(t.Context(), configmaps, "nowhere", "c")
	require.NoError(t, err)
	require.Equal(t, Unchanged, result.Outcome)
	// A deletion without a name would be that of all objects.
	e.make(configmaps, `{"metadata":{"name":"c"}}`)
	for _, name := range []string{"", ".", "..", "c/../d", "c?x"} {
		result, err = e.Delete(t.Context(), configmaps, e.namespace, name)
		require.NoError(t, err)
		require.Equal(t, ReasonInvalid, result.Reason, name)
	}
	e.now(configmaps, "c")
}

func TestForbidden(t *testing.T) {
	e := start(t)
	e.make(configmaps, refusedDoc)
	nobody := e.as("apply-nobody")
	for _, do := range []func() (Result, error){
		func() (Result, error) {
			return nobody.Put(t.Context(), configmaps, e.namespace, "c", []byte(refusedDoc))
		},
		func() (Result, error) {
			return nobody.Patch(t.Context(), configmaps, e.namespace, "c", []byte(`{}`), "")
		},
		func() (Result, error) { return nobody.Delete(t.Context(), configmaps, e.namespace, "c") },
	} {
		result, err := do()
		require.NoError(t, err)
		require.Equal(t, Refused, result.Outcome)
		require.Equal(t, ReasonForbidden, result.Reason)
		require.Contains(t, result.Message, "cannot")
	}
}

func TestAPIServerDoesNotDecide(t *testing.T) {
	busy := &synchronizer.RetryAfterError{After: time.Second, Err: errors.New("busy")}
	a := New(Options{Cluster: failing{busy}, Policy: policy.New(policy.LinkV1), Strategy: everything})
	for _, do := range []func() (Result, error){
		func() (Result, error) { return a.Put(t.Context(), configmaps, "n", "c", []byte(refusedDoc)) },
		func() (Result, error) { return a.Patch(t.Context(), configmaps, "n", "c", []byte(`{}`), "") },
		func() (Result, error) { return a.Delete(t.Context(), configmaps, "n", "c") },
	} {
		result, err := do()
		var after *synchronizer.RetryAfterError
		require.ErrorAs(t, err, &after)
		require.Equal(t, ReasonUnavailable, result.Reason)
		require.Equal(t, Failed, result.Outcome)
	}
}

// failing is an API server that answers everything with one error.
type failing struct{ err error }

func (f failing) Get(context.Context, synchronizer.Kind, string, string) (synchronizer.Object, error) {
	return synchronizer.Object{}, f.err
}

func (f failing) Create(context.Context, synchronizer.Kind, string, []byte) (synchronizer.Object, error) {
	return synchronizer.Object{}, f.err
}

func (f failing) Update(context.Context, synchronizer.Kind, string, string, []byte) (synchronizer.Object, error) {
	return synchronizer.Object{}, f.err
}

func (f failing) Delete(context.Context, synchronizer.Kind, string, string) error { return f.err }
