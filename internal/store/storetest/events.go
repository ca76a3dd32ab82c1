// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

func appendEvents(t *testing.T, b Backend, events ...synchronizer.EventRow) (added []bool) {
	t.Helper()
	require.NoError(t, b.Update(t.Context(), func(tx synchronizer.Tx) (err error) {
		added, err = tx.AppendEvents(t.Context(), events)
		return err
	}))
	return added
}

func event(k synchronizer.ObjectKey, n int, at time.Duration) synchronizer.EventRow {
	return synchronizer.EventRow{
		Key: k, Ident: synchronizer.WatchedEvent(fmt.Sprint(n), "1"), UID: fmt.Sprint(n), ResourceVersion: "1",
		At: noon.Add(at), Body: fmt.Appendf(nil, `{"n":%d}`, n),
	}
}

// readEvents reads every page and gives the uids.
func readEvents(t *testing.T, b Backend, q synchronizer.EventQuery) []string {
	t.Helper()
	uids := []string{}
	for {
		page, err := b.Events(t.Context(), q)
		require.NoError(t, err)
		for _, e := range page.Events {
			uids = append(uids, e.UID)
		}
		if q.Continue = page.Continue; q.Continue == "" {
			return uids
		}
	}
}

// events: appended once, read the newest first, by what they are about and when.
func events(t *testing.T, b Backend) {
	stage := synchronizer.ClusterID{Account: "acme", Cluster: "stage"}
	other := synchronizer.ClusterID{Account: "other", Cluster: "prod"}
	falco := synchronizer.Kind{Group: "kubescape.io", Version: "v1", Resource: "runtimealerts"}
	first := event(key(prod, falco, "n", "a\x00"), 1, 0)
	first.Body = []byte("{\"a\":\"\\u0000\", \"a\":1e400}")
	bad := event(key(prod, pods, "", "bad"), 2, time.Second)
	bad.Body = []byte("\x00\xff no JSON")
	require.Equal(t, []bool{true, true, false}, appendEvents(t, b, first, bad, first))
	again := first
	again.Body, again.At = []byte("{}"), noon.Add(time.Hour)
	again.Key.Name = "another"
	require.Equal(t, []bool{false, true, true, true},
		appendEvents(t, b, again, event(key(stage, falco, "n", "s"), 1, time.Second), event(key(other, falco, "n", "o"), 1, 0), event(key(prod, falco, "m", "c"), 3, 2*time.Second)))

	page, err := b.Events(t.Context(), synchronizer.EventQuery{Account: "acme", Full: true})
	require.NoError(t, err)
	require.Len(t, page.Events, 4)
	require.Equal(t, first, page.Events[3], "the first one stays as it was")
	i := slices.IndexFunc(page.Events, func(e synchronizer.EventRow) bool { return e.UID == "2" })
	require.Equal(t, bad, page.Events[i])
	page, err = b.Events(t.Context(), synchronizer.EventQuery{Account: "acme"})
	require.NoError(t, err)
	require.Nil(t, page.Events[0].Body, "not asked for")

	for name, test := range map[string]struct {
		q    synchronizer.EventQuery
		want []string
	}{
		"all":        {synchronizer.EventQuery{}, []string{"3", "1", "2", "1"}},
		"cluster":    {synchronizer.EventQuery{Clusters: []string{"stage"}}, []string{"1"}},
		"group":      {synchronizer.EventQuery{Groups: []string{"core"}}, []string{"2"}},
		"kind":       {synchronizer.EventQuery{Resources: []string{"runtimealerts"}, Versions: []string{"v1"}, Clusters: []string{"prod"}}, []string{"3", "1"}},
		"namespaces": {synchronizer.EventQuery{Namespaces: []string{"m", "-"}}, []string{"3", "2"}},
		"since":      {synchronizer.EventQuery{Since: noon.Add(2 * time.Second)}, []string{"3"}},
		"until":      {synchronizer.EventQuery{Until: noon.Add(time.Second)}, []string{"1"}},
		"between":    {synchronizer.EventQuery{Since: noon.Add(time.Microsecond), Until: noon.Add(2 * time.Second)}, []string{"1", "2"}},
		"nothing":    {synchronizer.EventQuery{Clusters: []string{"none"}}, []string{}},
	} {
		test.q.Account = "acme"
		for _, limit := range []int{0, 1} {
			test.q.Limit = limit
			require.Equal(t, test.want, readEvents(t, b, test.q), "%s, limit %d", name, limit)
		}
	}
	require.Equal(t, []string{"1"}, readEvents(t, b, synchronizer.EventQuery{Account: "other"}))
	require.Empty(t, readEvents(t, b, synchronizer.EventQuery{Account: "nobody"}))
	for name, q := range map[string]synchronizer.EventQuery{
		"everybody's": {}, "limit": {Account: "acme", Limit: -1}, "token": {Account: "acme", Continue: "AAAA"},
	} {
		_, err := b.Events(t.Context(), q)
		require.ErrorIs(t, err, synchronizer.ErrInvalid, name)
	}
}

// eventIdents: what makes an event the same one.
func eventIdents(t *testing.T, b Backend) {
	k := key(prod, pods, "n", "x")
	with := func(ident synchronizer.EventIdent) synchronizer.EventRow {
		e := event(k, 1, 0)
		e.Ident = ident
		return e
	}
	all := []synchronizer.EventIdent{
		synchronizer.WatchedEvent("u", "1"), synchronizer.WatchedEvent("u", "2"), synchronizer.WatchedEvent("u1", ""),
		synchronizer.PostedEvent("u", 1), synchronizer.PostedEvent("u", 2),
		synchronizer.MessageEvent("m", []byte("a")), synchronizer.MessageEvent("m", []byte("b")), synchronizer.MessageEvent("n", []byte("a")),
	}
	for range 2 {
		for i, ident := range all {
			require.Equal(t, []bool{!slices.Contains(readIdents(t, b), ident)}, appendEvents(t, b, with(ident)), "%d", i)
		}
	}
	require.Len(t, readIdents(t, b), len(all))
	elsewhere := with(all[0])
	elsewhere.Key.Kind = deployments
	require.Equal(t, []bool{true}, appendEvents(t, b, elsewhere), "unique in its kind")

	boom := errors.New("boom")
	lost := with(synchronizer.WatchedEvent("rolled", "back"))
	require.ErrorIs(t, b.Update(t.Context(), func(tx synchronizer.Tx) error {
		_, err := tx.AppendEvents(t.Context(), []synchronizer.EventRow{lost})
		require.NoError(t, err)
		return boom
	}), boom)
	require.Equal(t, []bool{true}, appendEvents(t, b, lost))
}

func readIdents(t *testing.T, b Backend) (idents []synchronizer.EventIdent) {
	t.Helper()
	page, err := b.Events(t.Context(), synchronizer.EventQuery{Account: "acme"})
	require.NoError(t, err)
	for _, e := range page.Events {
		idents = append(idents, e.Ident)
	}
	return idents
}

// eventsExpire: by age, and then the same one is new again.
func eventsExpire(t *testing.T, b Backend) {
	var all []synchronizer.EventRow
	for i := range 2500 {
		all = append(all, event(key(prod, pods, "n", fmt.Sprint(i)), i, time.Duration(i)*time.Second))
	}
	appendEvents(t, b, all...)
	require.Len(t, readEvents(t, b, synchronizer.EventQuery{Account: "acme"}), 2500)
	n, err := b.ExpireEvents(t.Context(), noon.Add(2400*time.Second))
	require.NoError(t, err)
	require.Equal(t, int64(2400), n)
	left := readEvents(t, b, synchronizer.EventQuery{Account: "acme"})
	require.Len(t, left, 100)
	require.Equal(t, "2499", left[0])
	require.Equal(t, "2400", left[99])
	require.Equal(t, []bool{true, false}, appendEvents(t, b, all[0], all[2400]))
}
