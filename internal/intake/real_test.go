// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/kube"
	"synchronizer/test/kubetest"
)

// TestRealAPIServer runs against a real API server as the service account of
// configuration/http-endpoint-rbac.yaml, with its rights and no others.
func TestRealAPIServer(t *testing.T) {
	server := kubetest.Start(t)
	ctx := t.Context()
	token := func(namespace, name, audience string) string {
		t.Helper()
		text, err := server.ServiceAccountToken(ctx, namespace, name, audience, time.Hour)
		require.NoError(t, err)
		return text
	}
	own := token("kubescape", "synchronizer", "")
	apply(t, server, "configuration/http-endpoint-rbac.yaml")

	// As in a pod: address, authority and a file with the token.
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(own), 0o600))
	config := server.RESTConfig()
	config.BearerToken, config.BearerTokenFile = "", file
	cluster, err := kube.New(kube.Options{Config: config})
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	w := open(t, func(o *Options, _ *limits) { o.APIServer = cluster })
	post := func(path, kind, token string) int {
		return w.post(path, token, report(kind, "a")).status
	}
	alert := func(token string) int { return post(alertPath, "RuntimeAlerts", token) }
	status := func(want int, token, why string) {
		t.Helper()
		// RBAC takes a moment to know new bindings, and refusals are kept for two seconds.
		require.Eventually(t, func() bool { return alert(token) == want }, limit, 50*time.Millisecond, why)
	}

	good := token("kubescape", "node-agent", "kubescape.io")
	status(202, good, "the manifest's Role")
	require.Equal(t, 202, post(streamPath, "NetworkStreams", good))
	require.Equal(t, 403, post("/apis/v1/kubescape.io/v1/registrystatuses", "RegistryStatuses", good), "a resource that is not in its Role")
	operator := token("kubescape", "operator", "kubescape.io")
	require.Equal(t, 202, post("/apis/v1/kubescape.io/v1/registrystatuses", "RegistryStatuses", operator))
	require.Equal(t, 403, alert(operator))

	// What docs/http-endpoint.md tells to type.
	typed, err := server.Kubectl(ctx, "create", "token", "node-agent", "-n", "kubescape", "--audience", "kubescape.io")
	require.NoError(t, err)
	require.Equal(t, 202, alert(strings.TrimSpace(string(typed))))
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "http-endpoint.md"))
	require.NoError(t, err)
	_, review, ok := strings.Cut(string(page), "<<'EOF'\n")
	require.True(t, ok)
	review, _, ok = strings.Cut(review, "EOF\n")
	require.True(t, ok)
	question := filepath.Join(t.TempDir(), "review.yaml")
	require.NoError(t, os.WriteFile(question, []byte(review), 0o600))
	said, err := server.Kubectl(ctx, "create", "-o", "jsonpath={.status.allowed}", "-f", question)
	require.NoError(t, err)
	require.Equal(t, "true", strings.TrimSpace(string(said)))

	require.Equal(t, 401, alert(token("kubescape", "node-agent", "other.io")), "wrong audience")
	require.Equal(t, 401, alert(token("kubescape", "node-agent", "")), "the API server's audience")
	require.Equal(t, 401, alert("garbage"))
	head, rest, _ := strings.Cut(good, ".")
	require.Equal(t, 401, alert(head+"."+strings.Replace(rest, rest[:4], "eyJ9", 1)), "changed claims")
	require.Equal(t, 401, alert(expired(t, server, good)), "expired")

	require.Equal(t, 403, alert(token("kubescape", "stranger", "kubescape.io")), "no Role")
	create := kubetest.PolicyRule{Namespace: "elsewhere", Verbs: []string{"create"}, APIGroups: []string{"kubescape.io"}, Resources: []string{"runtimealerts"}}
	require.NoError(t, server.Grant(ctx, kubetest.Subject{Namespace: "kubescape", Name: "foreign"}, create))
	require.Equal(t, 403, alert(token("kubescape", "foreign", "kubescape.io")), "a Role in another namespace")
	create.Namespace, create.Verbs = "kubescape", []string{"get", "update"}
	require.NoError(t, server.Grant(ctx, kubetest.Subject{Namespace: "kubescape", Name: "reader"}, create))
	require.Equal(t, 403, alert(token("kubescape", "reader", "kubescape.io")), "another verb")

	// Rights by group, for callers of another namespace.
	require.NoError(t, server.Apply(ctx, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: falco, namespace: kubescape}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: synchronizer-node-reports}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:falco"}]`))
	status(202, token("falco", "anyone", "kubescape.io"), "by group")

	// The API server does not know the service account any more. It has not seen
	// the token before, else it would remember it for some seconds too.
	gone := token("falco", "leaver", "kubescape.io")
	_, err = server.Do(ctx, http.MethodDelete, "/api/v1/namespaces/falco/serviceaccounts/leaver", "", nil)
	require.NoError(t, err)
	status(401, gone, "deleted service account")

	// The client's own service account is replaced, and with it its token.
	_, err = server.Do(ctx, http.MethodDelete, "/api/v1/namespaces/kubescape/serviceaccounts/synchronizer", "", nil)
	require.NoError(t, err)
	fresh := token("kubescape", "synchronizer", "")
	require.NoError(t, os.WriteFile(file, []byte(fresh), 0o600))
	// The API server remembers the old one for some seconds; then it refuses it.
	old := kubeOf(t, server, own)
	require.Eventually(t, func() bool {
		_, err := old.Post(ctx, tokenReviews, []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"x"}}`))
		return err != nil
	}, 2*limit, 200*time.Millisecond)
	w.gate.memory = newMemory(time.Now)
	require.Equal(t, 202, alert(good), "the token file is read again")

	// Without its right the client decides nothing.
	_, err = server.Do(ctx, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/synchronizer-auth-delegator", "", nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		w.gate.memory = newMemory(time.Now)
		return alert(good) == 503
	}, limit, 50*time.Millisecond)
	require.Contains(t, w.log.String(), "forbidden")
	apply(t, server, "configuration/http-endpoint-rbac.yaml")
	status(202, good, "granted again")

	// The API server goes away and comes back.
	require.NoError(t, server.Stop())
	w.gate.memory = newMemory(time.Now)
	require.Equal(t, 503, alert(good))
	require.Equal(t, 503, alert("garbage"))
	require.Equal(t, 200, w.do("GET", "/readyz", "", nil).status)
	require.NoError(t, server.Restart())
	status(202, good, "it is back")
	for _, secret := range []string{good, own, fresh, operator} {
		require.NotContains(t, w.log.String(), secret)
		require.NotContains(t, w.log.String(), secret[len(secret)-20:])
	}
}

// kubeOf reads the API server with a token.
func kubeOf(t *testing.T, server *kubetest.Cluster, token string) *kube.Cluster {
	t.Helper()
	config := server.RESTConfig()
	config.BearerToken = token
	cluster, err := kube.New(kube.Options{Config: config})
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return cluster
}

func apply(t *testing.T, server *kubetest.Cluster, path string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	require.NoError(t, err)
	require.NoError(t, server.Apply(t.Context(), string(text)))
}

// expired signs the claims of a token again, with an end in the past, by the
// cluster's own key. The API server makes none that end within ten minutes.
func expired(t *testing.T, server *kubetest.Cluster, token string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(server.Dir, "service-account.key"))
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	sign := func(exp time.Time) string {
		var claims map[string]any
		require.NoError(t, json.Unmarshal(raw, &claims))
		claims["exp"], claims["iat"], claims["nbf"] = exp.Unix(), exp.Add(-time.Hour).Unix(), exp.Add(-time.Hour).Unix()
		payload, err := json.Marshal(claims)
		require.NoError(t, err)
		input := parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload)
		return input + "." + base64.RawURLEncoding.EncodeToString(signature(t, block, input))
	}
	// Signed in the same way but not expired it is good, so the end is what counts.
	var review struct{ Status struct{ Authenticated bool } }
	body, err := json.Marshal(map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
		"spec": map[string]any{"token": sign(time.Now().Add(time.Hour / 2)), "audiences": []string{"kubescape.io"}},
	})
	require.NoError(t, err)
	answer, err := server.Do(context.WithoutCancel(t.Context()), http.MethodPost, tokenReviews, "", body)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(answer, &review))
	require.True(t, review.Status.Authenticated)
	return sign(time.Now().Add(-time.Minute))
}

func signature(t *testing.T, block *pem.Block, input string) []byte {
	t.Helper()
	sum := sha256.Sum256([]byte(input))
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		require.NoError(t, err)
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		require.NoError(t, err)
		if ec, ok := parsed.(*ecdsa.PrivateKey); ok {
			r, s, err := ecdsa.Sign(rand.Reader, ec, sum[:])
			require.NoError(t, err)
			return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		}
		key = parsed.(*rsa.PrivateKey)
	}
	signed, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	require.NoError(t, err)
	return signed
}
