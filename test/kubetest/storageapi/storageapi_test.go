// SPDX-License-Identifier: Apache-2.0

package storageapi_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"synchronizer/test/kubetest"
	"synchronizer/test/kubetest/storageapi"
)

const (
	limit = 20 * time.Second
	root  = "/apis/" + storageapi.Group + "/" + storageapi.Version
	all   = root + "/containerprofiles"
	inOne = root + "/namespaces/one/containerprofiles"
	body  = `{"metadata":{"labels":{"app":"nginx"}},"spec":{"findings":[1,2,9007199254740993]},"status":{"done":true}}`
)

func open(t *testing.T) *storageapi.Server {
	t.Helper()
	kubetest.Require(t, startErr)
	return storageapi.New(t, shared)
}

type item struct {
	Kind, APIVersion string
	Metadata         struct {
		Namespace, Name, UID, ResourceVersion, CreationTimestamp string
		Labels                                                   map[string]string
	}
	Spec, Status json.RawMessage
}

type list struct {
	Kind     string
	Metadata struct{ ResourceVersion, Continue string }
	Items    []item
}

func (l list) names() (names []string) {
	for _, i := range l.Items {
		names = append(names, i.Metadata.Name)
	}
	return names
}

func read[T any](t *testing.T, path string) (out T) {
	t.Helper()
	text, err := shared.Get(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &out), "%s", text)
	return out
}

func put(t *testing.T, s *storageapi.Server, resource, namespace, name string) string {
	t.Helper()
	version, err := s.Put(resource, namespace, name, []byte(body))
	require.NoError(t, err)
	return version
}

func TestListIsHollowAndGetIsFull(t *testing.T) {
	s := open(t)
	version := put(t, s, "containerprofiles", "one", "a")
	for _, path := range []string{all, inOne, all + "?resourceVersion=0"} {
		got := read[list](t, path)
		require.Equal(t, "ContainerProfileList", got.Kind)
		require.Equal(t, version, got.Metadata.ResourceVersion)
		require.Len(t, got.Items, 1)
		require.Empty(t, got.Items[0].Kind)
		require.JSONEq(t, `{}`, string(got.Items[0].Spec))
		require.JSONEq(t, `{}`, string(got.Items[0].Status))
		require.Equal(t, map[string]string{"app": "nginx"}, got.Items[0].Metadata.Labels)
	}
	require.Zero(t, s.Gets("containerprofiles", "one", "a"))
	got := read[item](t, inOne+"/a")
	require.Equal(t, "ContainerProfile", got.Kind)
	require.Equal(t, storageapi.Group+"/"+storageapi.Version, got.APIVersion)
	require.JSONEq(t, `{"findings":[1,2,9007199254740993]}`, string(got.Spec))
	require.Contains(t, string(got.Spec), "9007199254740993")
	require.Equal(t, []string{"one", "a", version}, []string{got.Metadata.Namespace, got.Metadata.Name, got.Metadata.ResourceVersion})
	require.NotEmpty(t, got.Metadata.UID)
	require.NotEmpty(t, got.Metadata.CreationTimestamp)
	require.Equal(t, 1, s.Gets("containerprofiles", "one", "a"))
	require.Equal(t, 3, s.Lists("containerprofiles"))
	require.Empty(t, read[list](t, root+"/namespaces/two/containerprofiles").Items)
	s.ResetCounts()
	require.Empty(t, s.Requests())

	_, err := shared.Get(t.Context(), inOne+"/missing")
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.ErrorContains(t, err, `"missing" not found`)
}

func TestFullSpecWhereAllowed(t *testing.T) {
	s := open(t)
	for resource, full := range map[string]bool{
		"applicationprofiles": false, "networkneighborhoods": false, "containerprofiles": true,
		"sbomsyfts": true, "sbomsyftfiltereds": true, "seccompprofiles": true, "knownservers": true,
	} {
		namespace := "one"
		if resource == "knownservers" {
			namespace = ""
		}
		put(t, s, resource, namespace, "a")
		got := read[list](t, root+"/"+resource+"?resourceVersion=fullSpec")
		require.Len(t, got.Items, 1)
		require.Equal(t, full, strings.Contains(string(got.Items[0].Spec), "findings"), resource)
		require.NoError(t, s.Behave(resource, storageapi.Behaviour{Full: true}))
		require.Contains(t, string(read[list](t, root+"/"+resource).Items[0].Spec), "findings")
	}
}

func TestPagesAndSelectors(t *testing.T) {
	s := open(t)
	for _, name := range []string{"c", "a", "b"} {
		put(t, s, "containerprofiles", "one", name)
	}
	first := read[list](t, all+"?limit=2")
	require.Equal(t, []string{"a", "b"}, first.names())
	put(t, s, "containerprofiles", "one", "d")
	second := read[list](t, all+"?limit=2&continue="+first.Metadata.Continue)
	require.Equal(t, []string{"c", "d"}, second.names())
	require.Empty(t, second.Metadata.Continue)
	require.Equal(t, first.Metadata.ResourceVersion, second.Metadata.ResourceVersion)
	require.Equal(t, []string{"c"}, read[list](t, all+"?fieldSelector=metadata.name%3Dc").names())
	require.Empty(t, read[list](t, all+"?labelSelector=app%3Dother").names())
	for _, query := range []string{"?continue=x", "?resourceVersion=x", "?labelSelector=((", "?fieldSelector=x"} {
		_, err := shared.Get(t.Context(), all+query)
		require.True(t, apierrors.IsBadRequest(err), "%s: %v", query, err)
	}
}

func TestDiscovery(t *testing.T) {
	s := open(t)
	type resources struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
			Verbs      []string
		}
	}
	got := read[resources](t, root)
	names := map[string]bool{}
	for _, r := range got.Resources {
		names[r.Name+" "+r.Kind] = r.Namespaced
		require.Subset(t, r.Verbs, []string{"get", "list", "watch"})
	}
	require.Equal(t, map[string]bool{
		"applicationprofiles ApplicationProfile": true, "containerprofiles ContainerProfile": true,
		"knownservers KnownServer": false, "networkneighborhoods NetworkNeighborhood": true,
		"sbomsyfts SBOMSyft": true, "sbomsyftfiltereds SBOMSyftFiltered": true, "seccompprofiles SeccompProfile": true,
	}, names)
	put(t, s, "containerprofiles", "one", "a")
	require.Eventually(t, func() bool { // the discovery of all groups is gathered now and then
		out, err := shared.Kubectl(t.Context(), "get", "containerprofiles", "-n", "one", "-o", "name")
		return err == nil && string(out) == "containerprofile."+storageapi.Group+"/a\n"
	}, limit, 100*time.Millisecond)
}

func TestWriteThroughKubeAPIServer(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	do := func(method, path, object string) (item, error) {
		text, err := shared.Do(ctx, method, path, "", []byte(object))
		var got item
		if err == nil {
			require.NoError(t, json.Unmarshal(text, &got))
		}
		return got, err
	}
	profile := func(version, spec string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":"ContainerProfile","metadata":{"name":"a","resourceVersion":%q},"spec":%s}`,
			storageapi.Group+"/"+storageapi.Version, version, spec)
	}
	made, err := do(http.MethodPost, inOne, profile("", `{"n":1}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1}`, string(made.Spec))
	_, err = do(http.MethodPost, inOne, profile("", `{}`))
	require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
	_, err = do(http.MethodPost, inOne, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`)
	require.True(t, apierrors.IsBadRequest(err), "%v", err)

	changed, err := do(http.MethodPut, inOne+"/a", profile(made.Metadata.ResourceVersion, `{"n":2}`))
	require.NoError(t, err)
	require.Equal(t, made.Metadata.UID, changed.Metadata.UID)
	require.Greater(t, number(t, changed), number(t, made))
	_, err = do(http.MethodPut, inOne+"/a", profile(made.Metadata.ResourceVersion, `{"n":3}`))
	require.True(t, apierrors.IsConflict(err), "%v", err)
	_, err = do(http.MethodPut, inOne+"/a", profile("", `{"n":3}`))
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.JSONEq(t, `{"n":2}`, string(read[item](t, inOne+"/a").Spec))

	_, err = shared.Do(ctx, http.MethodPatch, inOne+"/a", "application/merge-patch+json", []byte(`{}`))
	require.True(t, apierrors.IsMethodNotSupported(err), "%v", err)
	_, err = do(http.MethodDelete, inOne+"/a", "")
	require.NoError(t, err)
	_, err = do(http.MethodDelete, inOne+"/a", "")
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	_, err = do(http.MethodPut, inOne+"/a", profile("1", `{}`))
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	_, err = s.Put("pods", "one", "a", nil)
	require.Error(t, err)
	_, err = s.Put("knownservers", "one", "a", []byte(`{}`))
	require.ErrorContains(t, err, "wrong scope")
	_, err = s.Put("containerprofiles", "one", "a", []byte(`[`))
	require.ErrorContains(t, err, "reading object")
}

func number(t *testing.T, i item) int {
	t.Helper()
	n, err := strconv.Atoi(i.Metadata.ResourceVersion)
	require.NoError(t, err)
	return n
}

// Who asks is known to the server, and what RBAC forbids does not reach it.
func TestRights(t *testing.T) {
	s := open(t)
	put(t, s, "containerprofiles", "one", "a")
	path, err := shared.UserKubeconfig(t.Context(), "storage-reader", []string{"readers"}, kubetest.PolicyRule{
		Verbs: []string{"get", "list"}, APIGroups: []string{storageapi.Group}, Resources: []string{"containerprofiles"},
	})
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	client, closeIdle := newClient(t, config)
	defer closeIdle()
	s.ResetCounts()
	for path, want := range map[string]int{
		inOne + "/a": http.StatusOK, all: http.StatusOK,
		all + "?watch=true": http.StatusForbidden, root + "/sbomsyfts": http.StatusForbidden,
	} {
		response, err := client.Get(config.Host + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, response.StatusCode, path)
	}
	requests := s.Requests()
	require.Len(t, requests, 2)
	for _, r := range requests {
		require.Equal(t, "storage-reader", r.User)
		require.Contains(t, r.Groups, "readers")
	}
}

// Nobody but kube-apiserver is believed.
func TestDirectRequestsAreRefused(t *testing.T) {
	s := open(t)
	put(t, s, "containerprofiles", "one", "a")
	services := read[struct {
		Spec struct{ Service struct{ Port int } }
	}](t, "/apis/apiregistration.k8s.io/v1/apiservices/"+storageapi.Version+"."+storageapi.Group)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the certificate does not matter here
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", services.Spec.Service.Port, all), nil)
	require.NoError(t, err)
	request.Header.Set("X-Remote-User", "admin")
	response, err := transport.RoundTrip(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, response.StatusCode, "%s", text)
}

func TestDownAndClosed(t *testing.T) {
	s := open(t)
	unavailable := func() bool {
		_, err := shared.Get(t.Context(), all)
		return err != nil && (apierrors.IsServiceUnavailable(err) || strings.Contains(err.Error(), "503 Service Unavailable"))
	}
	require.False(t, unavailable())
	s.SetDown(true)
	require.Eventually(t, unavailable, limit, 10*time.Millisecond)
	s.SetDown(false)
	s.Close()
	require.Eventually(t, unavailable, limit, 10*time.Millisecond)
}

// newClient returns a client with its own connections, which it can close.
func newClient(t *testing.T, config *rest.Config) (client *http.Client, closeIdle func()) {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(config)
	require.NoError(t, err)
	network := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	transport, err := rest.HTTPWrappersForConfig(config, network)
	require.NoError(t, err)
	return &http.Client{Transport: transport}, network.CloseIdleConnections
}
