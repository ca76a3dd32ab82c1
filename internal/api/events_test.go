// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/store/sqlite"
)

// newEvents is an API over three reports of account a and one of account b, and
// one object with words.
func newEvents(t *testing.T) *fleet {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	alerts := synchronizer.Kind{Group: "kubescape.io", Version: "v1", Resource: "runtimealerts"}
	event := func(account, name string, minute int) synchronizer.EventRow {
		return synchronizer.EventRow{
			Key:   synchronizer.ObjectKey{ClusterID: synchronizer.ClusterID{Account: account, Cluster: "c"}, Kind: alerts, Namespace: "default", Name: name},
			Ident: synchronizer.MessageEvent(account+name, []byte(name)), At: when.Add(time.Duration(minute) * time.Minute),
			Body: []byte(`{"pid":9007199254740993,"name":"` + name + `"}`),
		}
	}
	row := synchronizer.Row{
		Key:       synchronizer.ObjectKey{ClusterID: synchronizer.ClusterID{Account: "a", Cluster: "c"}, Kind: deployments, Namespace: "payments", Name: "web"},
		Checksum:  strings.Repeat("c", 64),
		UpdatedAt: when, Body: []byte(body("web")), Order: synchronizer.Order{Generation: 1, Seq: 1},
	}
	require.NoError(t, db.Update(t.Context(), func(tx synchronizer.Tx) error {
		for _, account := range []string{"a", "b"} {
			source := synchronizer.ClusterSource{ClusterID: synchronizer.ClusterID{Account: account, Cluster: "c"}, Source: "s"}
			if _, err := tx.Generations(t.Context(), []synchronizer.ClusterSource{source}); err != nil {
				return err
			}
		}
		if _, err := tx.Rows(t.Context(), []synchronizer.ObjectKey{row.Key}, []bool{false}); err != nil {
			return err
		}
		if err := tx.Write(t.Context(), []synchronizer.Row{row}); err != nil {
			return err
		}
		return appendEvents(t.Context(), tx, event("a", "first", 1), event("a", "second", 2), event("a", "third", 3), event("b", "other", 4))
	}))
	for secret, token := range map[string]synchronizer.APIToken{"admin": {Scope: "admin"}, "a": {Account: "a", Scope: "read"}, "elsewhere": {Account: "a", Cluster: "d", Scope: "read"}} {
		require.NoError(t, db.AddAPIToken(t.Context(), synchronizer.HashSecret(secret), token))
	}
	return serve(t, Options{Reader: db, Credentials: db, Events: db, Ready: func() error { return nil }, Logger: slog.New(slog.DiscardHandler)})
}

func appendEvents(ctx context.Context, tx synchronizer.Tx, events ...synchronizer.EventRow) error {
	_, err := tx.AppendEvents(ctx, events)
	return err
}

func TestEvents(t *testing.T) {
	f := newEvents(t)
	names := func(token, query string) []string {
		t.Helper()
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		client := f.client(token)
		list, err := client.Events(t.Context(), values)
		require.NoError(t, err)
		names := []string{}
		for _, e := range list.Items {
			require.Equal(t, values.Get("full") != "", e.Object != nil)
			names = append(names, e.Name)
		}
		return names
	}
	require.Equal(t, []string{"third", "second", "first"}, names("a", "full=true"), "the newest first, of the token's account")
	require.Equal(t, []string{"other"}, names("admin", "account=b"))
	require.Equal(t, []string{"third", "second"}, names("a", "since="+when.Add(2*time.Minute).Format(time.RFC3339)))
	require.Equal(t, []string{"first"}, names("a", "until="+when.Add(2*time.Minute).Format(time.RFC3339)))
	require.Equal(t, []string{"third"}, names("a", "limit=1"))
	require.Empty(t, names("a", "resource=pods"))
	require.Empty(t, names("elsewhere", ""), "a token of one cluster sees no other")

	for query, status := range map[string]int{
		"token=admin":       http.StatusBadRequest, // no account
		"token=a&account=b": http.StatusNotFound, "token=a&limit=0": http.StatusBadRequest, "token=a&since=yesterday": http.StatusBadRequest,
		"token=a&full=perhaps": http.StatusBadRequest, "token=a&name=x": http.StatusBadRequest, "token=a&account=a&account=b": http.StatusBadRequest,
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		client := f.client(values.Get("token"))
		values.Del("token")
		_, err = client.Events(t.Context(), values)
		require.True(t, IsStatus(err, status), "%s: %v", query, err)
	}
}

func TestSearch(t *testing.T) {
	f := newEvents(t)
	client := f.client("a")
	for search, want := range map[string]int{"payments web": 1, "payments": 1, "payments absent": 0} {
		list, err := client.Objects(t.Context(), url.Values{"search": {search}})
		require.NoError(t, err)
		require.Len(t, list.Items, want, search)
	}
}
