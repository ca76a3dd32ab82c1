// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

var writeKind = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}

func TestRequestsOfWrites(t *testing.T) {
	var said string
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said = fmt.Sprintf("%s %s %q %s", r.Method, r.URL, r.Header.Get("Content-Type"), body)
		_, _ = io.WriteString(w, `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"x","namespace":"n","uid":"u","resourceVersion":"7"}}`+"\n")
	})
	const doc = `{"metadata":{"name":"x"}}`
	o, err := c.Create(t.Context(), writeKind, "n", []byte(doc))
	require.NoError(t, err)
	require.Equal(t, "7", o.ResourceVersion)
	require.Equal(t, `POST /apis/apps/v1/namespaces/n/deployments?fieldManager=synchronizer "application/json" `+doc, said)
	_, err = c.Update(t.Context(), writeKind, "n", "x:y", []byte(doc))
	require.NoError(t, err)
	require.Equal(t, `PUT /apis/apps/v1/namespaces/n/deployments/x:y?fieldManager=synchronizer "application/json" `+doc, said)
	_, err = c.Patch(t.Context(), synchronizer.Kind{Version: "v1", Resource: "nodes"}, "", "x", []byte(doc))
	require.NoError(t, err)
	require.Equal(t, `PATCH /api/v1/nodes/x?fieldManager=synchronizer "application/merge-patch+json" `+doc, said)
	require.NoError(t, c.Delete(t.Context(), writeKind, "n", "x"))
	require.Equal(t, `DELETE /apis/apps/v1/namespaces/n/deployments/x?propagationPolicy=Background "" `, said)

	said = ""
	for _, name := range []string{"", "..", "a/b", "a?b", "a%2fb"} {
		require.ErrorIs(t, c.Delete(t.Context(), writeKind, "n", name), synchronizer.ErrInvalid, name)
		_, err = c.Update(t.Context(), writeKind, "n", name, nil)
		require.ErrorIs(t, err, synchronizer.ErrInvalid, name)
	}
	_, err = c.Create(t.Context(), writeKind, "../m", nil)
	require.ErrorIs(t, err, synchronizer.ErrInvalid)
	require.ErrorIs(t, c.Delete(t.Context(), synchronizer.Kind{Version: "v1", Resource: "a/b"}, "", "x"), synchronizer.ErrKindNotServed)
	require.Empty(t, said, "nothing was sent")
}

func TestRefusalsOfWrites(t *testing.T) {
	for name, c := range map[string]struct {
		code          int
		status        string // members of a Status; or another body if it does not begin with a quote
		is            error
		says, saysNot string
	}{
		"exists":         {code: 409, status: `"reason":"AlreadyExists","message":"it already exists"`, is: ErrAlreadyExists},
		"conflict":       {code: 409, status: `"reason":"Conflict","message":"the object has been modified"`, is: ErrConflict, says: "has been modified"},
		"rights":         {code: 403, status: `"reason":"Forbidden","message":"pods is forbidden: User \"u\" cannot create resource \"pods\""`, is: synchronizer.ErrForbidden, says: "cannot create"},
		"no body":        {code: 403, status: `<html>`, is: synchronizer.ErrForbidden},
		"credentials":    {code: 401, status: `"message":"Unauthorized"`, is: synchronizer.ErrForbidden},
		"terminating":    {code: 403, status: `"message":"unable to create","details":{"causes":[{"reason":"NamespaceTerminating"}]}`, is: ErrNamespaceTerminating},
		"quota":          {code: 403, status: `"message":"pods \"x\" is forbidden: exceeded quota: q, requested: pods=1"`, is: ErrQuota},
		"quota unready":  {code: 403, status: `"message":"pods \"x\" is forbidden: status unknown for quota: q"`, is: ErrQuota},
		"pod security":   {code: 403, status: `"message":"pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\""`, is: ErrDeniedByPolicy},
		"webhook":        {code: 400, status: `"message":"admission webhook \"a.b\" denied the request: never"`, is: ErrDeniedByWebhook, says: "never"},
		"policy":         {code: 422, status: `"message":"pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"`, is: ErrDeniedByPolicy},
		"object":         {code: 404, status: `"message":"configmaps \"x\" not found","details":{"name":"x"}`, is: synchronizer.ErrNotFound},
		"kind":           {code: 404, status: `"message":"the server could not find the requested resource","details":{}`, is: synchronizer.ErrKindNotServed},
		"method":         {code: 405, status: `"message":"the server does not allow this method"`, is: synchronizer.ErrKindNotServed},
		"size":           {code: 413, status: `"message":"limit is 3145728"`, is: synchronizer.ErrTooLarge},
		"not decodable":  {code: 400, status: `"reason":"BadRequest","message":"cannot decode |hunter2|"`, is: synchronizer.ErrInvalid, says: "BadRequest", saysNot: "hunter2"},
		"invalid":        {code: 422, status: `"message":"spec.a: Invalid value: hunter2","details":{"name":"x","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: hunter2","field":"spec.a"}]}`, is: synchronizer.ErrInvalid, says: "spec.a (FieldValueInvalid)", saysNot: "hunter2"},
		"immutable":      {code: 422, status: `"message":"x","details":{"causes":[{"reason":"FieldValueInvalid","message":"hunter2: field is immutable","field":"spec.a"}]}`, is: ErrImmutable, says: "spec.a", saysNot: "hunter2"},
		"more than five": {code: 422, status: `"message":"x","details":{"causes":[{"field":"a"},{"field":"b"},{"field":"c"},{"field":"d"},{"field":"e"},{"field":"f"}]}`, is: synchronizer.ErrInvalid, says: "and 1 more"},
		"webhook down":   {code: 500, status: `"message":"failed calling webhook \"a.b\""`, says: "failed calling"},
		"busy":           {code: 429, status: `"message":"too many requests"`, says: "retry after 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := serve(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.code)
				if c.status[0] == '"' {
					c.status = `{"kind":"Status",` + c.status + `}`
				}
				_, _ = io.WriteString(w, c.status)
			})
			_, err := cluster.Update(t.Context(), writeKind, "n", "x", []byte(`{}`))
			require.Error(t, err)
			require.Contains(t, err.Error(), "updating apps/v1/deployments n/x: ")
			require.Contains(t, err.Error(), c.says)
			if c.saysNot != "" {
				require.NotContains(t, err.Error(), c.saysNot)
			}
			for _, other := range []error{
				ErrAlreadyExists, ErrConflict, ErrNamespaceTerminating, ErrQuota, ErrDeniedByWebhook, ErrDeniedByPolicy,
				synchronizer.ErrForbidden, synchronizer.ErrNotFound, synchronizer.ErrKindNotServed, synchronizer.ErrTooLarge,
			} {
				if other == c.is {
					require.ErrorIs(t, err, other)
				} else {
					require.NotErrorIs(t, err, other)
				}
			}
			if c.is == synchronizer.ErrInvalid || c.is == ErrImmutable {
				require.ErrorIs(t, err, synchronizer.ErrInvalid)
				require.ErrorIs(t, err, c.is)
			}
		})
	}
}

func TestAnswerThatIsCutOffIsAnAnswer(t *testing.T) {
	c := serve(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"kind"`)
	})
	o, err := c.Create(t.Context(), writeKind, "n", []byte(`{}`))
	require.NoError(t, err)
	require.Empty(t, o.ResourceVersion)
}

func TestSilentWriteEnds(t *testing.T) {
	release := make(chan struct{})
	c := serve(t, Options{ReadSilence: 50 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	defer close(release)
	_, err := c.Create(t.Context(), writeKind, "n", []byte(`{}`))
	require.ErrorIs(t, err, errSilent)
}
