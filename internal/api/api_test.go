// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/store/sqlite"
)

var (
	deployments = synchronizer.Kind{Group: "apps", Version: "v1", Resource: "deployments"}
	nodes       = synchronizer.Kind{Version: "v1", Resource: "nodes"}
	when        = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// body is an object whose bytes are easily changed by a careless hand.
func body(name string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"` + name + `","labels":{"app":"` + name + `"}},"x":[1.0,1e3,9007199254740993,"<&>\u2028\u0000"]}`
}

// fleet is an API over a real store with two accounts that both have a cluster
// named "same".
type fleet struct {
	t    *testing.T
	url  string
	http *http.Client
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	fill(t, db)
	for secret, token := range map[string]synchronizer.APIToken{
		"admin": {Scope: "admin"}, "a": {Account: "a", Scope: "read"}, "b": {Account: "b", Scope: "read"},
		"a-same": {Account: "a", Cluster: "same", Scope: "read"}, "nobody": {Account: "nobody", Scope: "read"},
	} {
		require.NoError(t, db.AddAPIToken(t.Context(), synchronizer.HashSecret(secret), token))
	}
	return serve(t, Options{Reader: db, Credentials: db, Ready: func() error { return nil }, Logger: slog.New(slog.DiscardHandler)})
}

func serve(t *testing.T, o Options) *fleet {
	t.Helper()
	s := httptest.NewServer(New(o))
	t.Cleanup(s.Close)
	return &fleet{t: t, url: s.URL, http: s.Client()}
}

// fill stores: account a, clusters same (web, worker, gone, stub, node-1) and
// more (250 objects); account b, cluster same (secret).
func fill(t *testing.T, db *sqlite.DB) {
	t.Helper()
	row := func(account, cluster string, kind synchronizer.Kind, namespace, name string) synchronizer.Row {
		return synchronizer.Row{
			Key: synchronizer.ObjectKey{ClusterID: synchronizer.ClusterID{Account: account, Cluster: cluster}, Kind: kind, Namespace: namespace, Name: name},
			UID: "uid-" + name, ResourceVersion: "7", Checksum: strings.Repeat("c", 64), UpdatedAt: when, Body: []byte(body(name)),
			Order: synchronizer.Order{Generation: 1, Seq: 1},
		}
	}
	gone, stub := row("a", "same", deployments, "default", "gone"), row("a", "same", deployments, "default", "stub")
	gone.Body, gone.DeletedAt = nil, when
	stub.Body, stub.State = nil, "not carried: too large"
	rows := []synchronizer.Row{
		gone, stub, row("a", "same", deployments, "default", "web"), row("a", "same", deployments, "shop", "worker"),
		row("a", "same", nodes, "", "node-1"), row("b", "same", deployments, "default", "secret"),
	}
	for i := range 250 {
		rows = append(rows, row("a", "more", deployments, "many", fmt.Sprintf("n-%03d", i)))
	}
	require.NoError(t, db.Update(t.Context(), func(tx synchronizer.Tx) error {
		var sources []synchronizer.ClusterSource
		keys := make([]synchronizer.ObjectKey, len(rows))
		for i := range rows {
			keys[i] = rows[i].Key
		}
		for _, id := range []synchronizer.ClusterID{{Account: "a", Cluster: "same"}, {Account: "a", Cluster: "more"}, {Account: "b", Cluster: "same"}} {
			sources = append(sources, synchronizer.ClusterSource{ClusterID: id, Source: "s"})
		}
		if _, err := tx.Generations(t.Context(), sources); err != nil {
			return err
		}
		if _, err := tx.Rows(t.Context(), keys, make([]bool, len(keys))); err != nil {
			return err
		}
		return tx.Write(t.Context(), rows)
	}))
}

// get asks with a token and returns status, content type and body.
func (f *fleet) get(token, path string) (int, string, string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.url+path, nil)
	require.NoError(f.t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := f.http.Do(r)
	require.NoError(f.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(f.t, err)
	return response.StatusCode, response.Header.Get("Content-Type"), string(text)
}

func (f *fleet) client(token string) *Client {
	return &Client{Server: f.url + "/", Token: token, HTTP: f.http}
}

// names lists objects as cluster/name.
func (f *fleet) names(token, query string) (names []string, next string) {
	f.t.Helper()
	values, err := url.ParseQuery(query)
	require.NoError(f.t, err)
	list, err := f.client(token).Objects(f.t.Context(), values)
	require.NoError(f.t, err)
	names = []string{}
	for i := range list.Items {
		names = append(names, list.Items[i].Account+"/"+list.Items[i].Cluster+"/"+list.Items[i].Name)
	}
	return names, list.Continue
}

func TestRefusals(t *testing.T) {
	f := newFleet(t)
	const object = "/api/v1/objects/a/same/apps/v1/deployments/default/"
	for _, test := range []struct {
		token, path string
		status      int
		detail      string
	}{
		{"", "/api/v1/clusters", 401, "an API token is needed"},
		{"", "/api/v1/nonsense", 401, "an API token is needed"},
		{"wrong", "/api/v1/clusters", 401, "unknown or was revoked"},
		{"a", "/api/v1/nonsense", 404, "GET /api/v1/nonsense"},
		{"a", "/api/v1/objects?labelselector=app%3Dweb", 400, `"labelselector" is not known`},
		{"a", "/api/v1/objects?account=a&account=b", 400, `"account" is given more than once`},
		{"a", "/api/v1/clusters?cluster=same", 400, `"cluster" is not known`},
		{"a", "/api/v1/objects?limit=0", 400, "limit"},
		{"a", "/api/v1/objects?limit=-1", 400, "limit"},
		{"a", "/api/v1/objects?limit=many", 400, "limit"},
		{"a", "/api/v1/objects?limit=10001", 400, "10"},
		{"a", "/api/v1/objects?limit=99999999999999999999", 400, "limit"},
		{"a", "/api/v1/objects?deleted=perhaps", 400, "neither true nor false"},
		{"a", "/api/v1/objects?full=perhaps", 400, "neither true nor false"},
		{"a", "/api/v1/objects?updatedSince=yesterday", 400, "RFC 3339"},
		{"a", "/api/v1/objects?continue=nonsense", 400, "continue"},
		{"a", "/api/v1/objects?labelSelector=a%20in%20(", 400, "labelSelector"},
		{"a", "/api/v1/objects?labelSelector=a%3E1", 400, "not supported"},
		{"a", object + "absent", 404, "not found"},
		{"a", object + "gone", 404, "was deleted at 2026-01-02T03:04:05Z"},
		{"a", object + "stub", 404, "not carried: too large"},
		{"a", "/api/v1/clusters/a/absent", 404, "not found"},
		{"admin", "/api/v1/clusters/nobody/same", 404, "not found"},
	} {
		t.Run(test.token+" "+test.path, func(t *testing.T) {
			status, contentType, text := f.get(test.token, test.path)
			require.Equal(t, test.status, status, text)
			require.Equal(t, "application/problem+json", contentType)
			var p Problem
			require.NoError(t, json.Unmarshal([]byte(text), &p))
			require.Equal(t, test.status, p.Status)
			require.NotEmpty(t, p.Title)
			require.Contains(t, p.Detail, test.detail)
		})
	}
}

// TestScope: a token sees what it is bound to, and cannot tell what another
// account or cluster has from what does not exist.
func TestScope(t *testing.T) {
	f := newFleet(t)
	clusters := func(token string) (list []string) {
		found, err := f.client(token).Clusters(t.Context())
		require.NoError(t, err)
		for _, c := range found {
			list = append(list, c.Account+"/"+c.Cluster)
		}
		return list
	}
	require.Equal(t, []string{"a/more", "a/same", "b/same"}, clusters("admin"))
	require.Equal(t, []string{"a/more", "a/same"}, clusters("a"))
	require.Equal(t, []string{"a/same"}, clusters("a-same"))
	require.Equal(t, []string{"b/same"}, clusters("b"))
	require.Empty(t, clusters("nobody"))

	names, _ := f.names("b", "")
	require.Equal(t, []string{"b/same/secret"}, names)
	names, _ = f.names("b", "cluster=same&cluster=more&account=b")
	require.Equal(t, []string{"b/same/secret"}, names)
	names, _ = f.names("a-same", "resource=nodes")
	require.Equal(t, []string{"a/same/node-1"}, names)
	names, _ = f.names("a-same", "cluster=more&cluster=same&resource=nodes")
	require.Equal(t, []string{"a/same/node-1"}, names)
	names, _ = f.names("admin", "cluster=same&group=apps&namespace=default")
	require.Equal(t, []string{"a/same/stub", "a/same/web", "b/same/secret"}, names)

	for _, test := range []struct{ token, exists, absent string }{
		{"a", "/api/v1/objects?account=b", "/api/v1/objects?account=nope"},
		{"a", "/api/v1/clusters?account=b", "/api/v1/clusters?account=nope"},
		{"a", "/api/v1/clusters/b/same", "/api/v1/clusters/nope/same"},
		{"a-same", "/api/v1/clusters/a/more", "/api/v1/clusters/a/nope"},
		{"a-same", "/api/v1/objects?cluster=more", "/api/v1/objects?cluster=nope"},
		{"a", "/api/v1/objects/b/same/apps/v1/deployments/default/secret", "/api/v1/objects/nope/same/apps/v1/deployments/default/secret"},
		{"a-same", "/api/v1/objects/a/more/apps/v1/deployments/many/n-001", "/api/v1/objects/a/nope/apps/v1/deployments/many/n-001"},
	} {
		status, _, text := f.get(test.token, test.exists)
		statusAbsent, _, textAbsent := f.get(test.token, test.absent)
		require.Equal(t, 404, status, test.exists)
		require.Equal(t, statusAbsent, status)
		require.Equal(t, textAbsent, text, "the answer tells that it exists")
	}
}

func TestObjects(t *testing.T) {
	f := newFleet(t)
	for _, test := range []struct {
		query string
		want  []string
	}{
		{"cluster=same", []string{"a/same/node-1", "a/same/stub", "a/same/web", "a/same/worker"}},
		{"cluster=same&deleted=true&resource=deployments", []string{"a/same/gone", "a/same/stub", "a/same/web", "a/same/worker"}},
		{"cluster=same&group=core", []string{"a/same/node-1"}},
		{"cluster=same&namespace=-", []string{"a/same/node-1"}},
		{"cluster=same&namespace=-&namespace=shop", []string{"a/same/node-1", "a/same/worker"}},
		{"name=web&name=n-007", []string{"a/more/n-007", "a/same/web"}},
		{"namePrefix=n-24&version=v1", []string{"a/more/n-240", "a/more/n-241", "a/more/n-242", "a/more/n-243", "a/more/n-244", "a/more/n-245", "a/more/n-246", "a/more/n-247", "a/more/n-248", "a/more/n-249"}},
		{"labelSelector=app%3Dweb", []string{"a/same/web"}},
		{"labelSelector=app+in+(web,worker),app!%3Dweb", []string{"a/same/worker"}},
		{"cluster=same&resource=deployments&labelSelector=!app", []string{"a/same/stub"}},
		{"updatedSince=2026-01-03T00:00:00Z", []string{}},
		{"cluster=nope", []string{}},
	} {
		t.Run(test.query, func(t *testing.T) {
			names, _ := f.names("a", test.query)
			require.Equal(t, test.want, names)
		})
	}
}

// TestPaging: pages follow each other without a gap, 100 rows by default, and
// EachPage leaves the caller's query alone.
func TestPaging(t *testing.T) {
	f := newFleet(t)
	names, next := f.names("a", "cluster=more")
	require.Len(t, names, 100)
	require.NotEmpty(t, next)
	names, next = f.names("a", "cluster=more&limit=10000")
	require.Len(t, names, 250)
	require.Empty(t, next)

	query := url.Values{"cluster": {"more"}, "limit": {"33"}}
	var all []string
	pages := 0
	require.NoError(t, f.client("a").EachPage(t.Context(), query, func(page []Object) error {
		pages++
		for i := range page {
			all = append(all, "a/more/"+page[i].Name)
		}
		return nil
	}))
	require.Equal(t, names, all)
	require.Equal(t, 8, pages)
	require.NotContains(t, query, "continue")
	stop := errors.New("enough")
	require.ErrorIs(t, f.client("a").EachPage(t.Context(), nil, func([]Object) error { return stop }), stop)
}

func TestObjectBytes(t *testing.T) {
	f := newFleet(t)
	status, contentType, text := f.get("a", "/api/v1/objects/a/same/apps/v1/deployments/shop/worker")
	require.Equal(t, 200, status)
	require.Equal(t, "application/json", contentType)
	require.Equal(t, body("worker"), text)
	_, _, text = f.get("a", "/api/v1/objects/a/same/core/v1/nodes/-/node-1")
	require.Equal(t, body("node-1"), text)

	_, _, text = f.get("a", "/api/v1/objects?name=web&full=true")
	require.Contains(t, text, `"object":`+body("web"), "a compact body stands in the list as it is")
	_, _, text = f.get("a", "/api/v1/objects?name=web")
	require.NotContains(t, text, `"object"`)
	list, err := f.client("a").Objects(t.Context(), url.Values{"name": {"gone"}, "deleted": {"true"}, "full": {"true"}})
	require.NoError(t, err)
	require.Equal(t, []Object{{
		Account: "a", Cluster: "same", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "default", Name: "gone",
		UID: "uid-gone", ResourceVersion: "7", Checksum: strings.Repeat("c", 64), UpdatedAt: when, DeletedAt: when,
	}}, list.Items)
}

func TestCluster(t *testing.T) {
	f := newFleet(t)
	status, _, text := f.get("a-same", "/api/v1/clusters/a/same")
	require.Equal(t, 200, status)
	var c Cluster
	require.NoError(t, json.Unmarshal([]byte(text), &c))
	require.EqualValues(t, 4, c.Objects)
	require.Len(t, c.Kinds, 2)
	_, _, text = f.get("nobody", "/api/v1/clusters")
	require.JSONEq(t, `{"items":[]}`, text)
}

// brokenReader is a database with a fault that is nobody's business outside.
type brokenReader struct{ synchronizer.Reader }

func (brokenReader) Objects(context.Context, synchronizer.ObjectQuery) (synchronizer.ObjectPage, error) {
	return synchronizer.ObjectPage{}, errors.New("password of the database is hunter2")
}

type everybody struct{ synchronizer.Credentials }

func (everybody) APIToken(context.Context, [32]byte) (synchronizer.APIToken, error) {
	return synchronizer.APIToken{Scope: "admin"}, nil
}

func TestFaults(t *testing.T) {
	ready := errors.New("queue is away")
	var log bytes.Buffer
	f := serve(t, Options{
		Reader: brokenReader{}, Credentials: everybody{}, Ready: func() error { return ready },
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	status, _, text := f.get("x", "/api/v1/objects")
	require.Equal(t, 500, status)
	require.NotContains(t, text, "hunter2")
	require.Contains(t, log.String(), "hunter2")
	status, _, text = f.get("", "/readyz")
	require.Equal(t, 503, status)
	require.Contains(t, text, "queue is away")
	status, _, _ = f.get("", "/healthz")
	require.Equal(t, 200, status)
	ready = nil
	status, _, _ = f.get("", "/readyz")
	require.Equal(t, 200, status)
}

func TestClientErrors(t *testing.T) {
	answer := func(status int, text string) *Client {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(s.Close)
		return &Client{Server: s.URL, HTTP: s.Client()}
	}
	_, err := answer(401, `{"status":401,"title":"unauthorized","detail":"d"}`).Clusters(t.Context())
	require.True(t, IsStatus(err, 401))
	require.EqualError(t, err, "unauthorized: d")
	_, err = answer(502, "<html>bad gateway</html>").Clusters(t.Context())
	require.True(t, IsStatus(err, 502))
	require.ErrorContains(t, err, "502 Bad Gateway: <html>")
	_, err = answer(404, "").Clusters(t.Context())
	require.EqualError(t, err, "404 Not Found")
	_, err = answer(200, "not JSON").Clusters(t.Context())
	require.ErrorContains(t, err, "reading the answer")
	_, err = (&Client{Server: "http://\x7f"}).Clusters(t.Context())
	require.ErrorContains(t, err, "reading the address")
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err = (&Client{Server: gone.URL, HTTP: gone.Client()}).Clusters(t.Context())
	require.ErrorContains(t, err, "asking "+gone.URL)
	require.False(t, IsStatus(err, 404))
	require.Equal(t, time.Minute, defaultHTTP().Transport.(*http.Transport).ResponseHeaderTimeout)
}
