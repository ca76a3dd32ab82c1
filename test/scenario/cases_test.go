// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/test/kubetest"
)

var errSeen = errors.New("seen")

// The halves of cases that are about what is stored; those about writing into the
// cluster are in package apply.

// B002, upwards: integers above 2^53 arrive digit by digit, and no step is taken
// for no change, although floats cannot tell them apart. Link v1 cannot be trusted
// with them in a patch, so an object goes whole, or is asked for after the patch.
func TestB002BigIntegersInTheCluster(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared)
	w.kinds = []synchronizer.Kind{w.widgets()}
	w.define()
	w.create(w.widgets(), "counter")
	b := startBackend(t, t.TempDir(), keyed)
	client := w.startClient(to(b))
	w.agree(b)
	for _, step := range []struct{ patch, want string }{
		{`{"spec":{"counter":9007199254740993}}`, `"counter":9007199254740993`},
		{`{"spec":{"counter":9007199254740992}}`, `"counter":9007199254740992`},
		{`{"metadata":{"labels":{"unrelated":"yes"}}}`, `"unrelated":"yes"`},
		{`{"spec":{"counter":9223372036854775807}}`, `"counter":9223372036854775807`},
	} {
		said := client.frames("sent", "PutObject") + client.frames("sent", "PatchObject")
		_, err := w.cluster.Do(t.Context(), http.MethodPatch, w.path(w.widgets(), "counter"), "application/merge-patch+json", []byte(step.patch))
		require.NoError(t, err)
		eventually(t, step.want, func() bool { return strings.Contains(string(b.object(t, w, w.widgets(), "counter").Object), step.want) })
		require.Greater(t, client.frames("sent", "PutObject")+client.frames("sent", "PatchObject"), said)
		w.agree(b) // client and backend have the same checksum
	}
}

// B006: an object has one checksum, however it is read.
func TestB006OneChecksumOfAllReadings(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, deployments)
	w.create(deployments, "web")
	sum := func(body []byte) string {
		text, err := checksum.V1(body)
		require.NoError(t, err)
		return text
	}
	got, err := w.reader.Get(t.Context(), deployments, w.namespace, "web")
	require.NoError(t, err)
	want := sum(got.Body)
	listed := 0
	version, err := w.reader.List(t.Context(), deployments, func(o synchronizer.Object) error {
		if o.Namespace == w.namespace {
			listed++
			require.Equal(t, want, sum(o.Body), "listed")
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 1, listed)
	seen := make(chan string, 1)
	_, stop := background(t, "watch", func(ctx context.Context) error {
		err := w.reader.Watch(ctx, deployments, version, func(e synchronizer.WatchEvent) error {
			if e.Type == synchronizer.WatchModified && e.Object.Namespace == w.namespace {
				seen <- sum(e.Object.Body)
				return errSeen
			}
			return nil
		})
		if ctx.Err() != nil || err != nil {
			return nil
		}
		return err
	})
	defer stop()
	w.change(deployments, "web")
	watched := <-seen
	got, err = w.reader.Get(t.Context(), deployments, w.namespace, "web")
	require.NoError(t, err)
	require.Equal(t, sum(got.Body), watched, "watched")
}

// B035: the row of an object with a finalizer is there until the object is, and
// stays gone.
func TestB035RowOfATerminatingObject(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	w := newWorld(t, shared, configMaps)
	w.create(configMaps, "held", "other")
	patch := func(text string) {
		_, err := w.cluster.Do(t.Context(), http.MethodPatch, w.path(configMaps, "held"), "application/merge-patch+json", []byte(text))
		require.NoError(t, err)
	}
	patch(`{"metadata":{"finalizers":["example.com/hold"]}}`)
	b := startBackend(t, t.TempDir(), keyed)
	w.startClient(to(b))
	w.agree(b)
	w.delete(configMaps, "held")
	eventually(t, "the row says that the object is terminating", func() bool {
		return strings.Contains(string(b.object(t, w, configMaps, "held").Object), "deletionTimestamp")
	})
	patch(`{"data":{"a":"1"}}`)
	patch(`{"data":{"a":"2"}}`)
	eventually(t, "the last update is stored", func() bool {
		return strings.Contains(string(b.object(t, w, configMaps, "held").Object), `"a":"2"`)
	})
	require.False(t, b.deleted(w, configMaps, "held"))
	w.agree(b)
	patch(`{"metadata":{"finalizers":null}}`)
	eventually(t, "the row is gone", func() bool { return b.deleted(w, configMaps, "held") })
	w.reconcile(b)
	w.fence(b)
	require.True(t, b.deleted(w, configMaps, "held"), "and stays gone")
	w.agree(b)
}

// B085: names with colons travel, are stored and are reconciled like any other.
func TestB085NamesAreStoredAsTheyAre(t *testing.T) {
	t.Parallel()
	kubetest.Require(t, startErr)
	const group = "rbac.authorization.k8s.io"
	roles := synchronizer.Kind{Group: group, Version: "v1", Resource: "roles"}
	bindings := synchronizer.Kind{Group: group, Version: "v1", Resource: "rolebindings"}
	w := newWorld(t, shared)
	w.kinds = []synchronizer.Kind{roles, bindings, w.widgets()}
	w.define()
	apply := func(verb string) {
		for _, manifest := range []string{
			`{"apiVersion":"` + group + `/v1","kind":"Role","metadata":{"name":"team:reader","namespace":"` + w.namespace + `"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["` + verb + `"]}]}`,
			`{"apiVersion":"` + group + `/v1","kind":"RoleBinding","metadata":{"name":"x:y:z","namespace":"` + w.namespace + `","labels":{"verb":"` + verb + `"}},"roleRef":{"apiGroup":"` + group + `","kind":"Role","name":"team:reader"}}`,
			`{"apiVersion":"` + w.widgets().GroupVersion() + `","kind":"Widget","metadata":{"name":"report","namespace":"` + w.namespace + `"},"results":[{"verb":"` + verb + `","resources":[{"kind":"Role","name":"team:reader"},{"kind":"RoleBinding","name":"x:y:z"}]}]}`,
		} {
			require.NoError(t, w.cluster.Apply(t.Context(), manifest))
		}
	}
	apply("get")
	b := startBackend(t, t.TempDir(), keyed)
	client := w.startClient(to(b))
	w.agree(b)
	require.Equal(t, "team:reader", b.object(t, w, roles, "team:reader").Name)
	require.Equal(t, "x:y:z", b.object(t, w, bindings, "x:y:z").Name)
	apply("list")
	w.agree(b)
	w.reconcileSaying(b, client, 0)
	w.delete(roles, "team:reader")
	w.delete(bindings, "x:y:z")
	eventually(t, "both are deleted", func() bool { return b.deleted(w, roles, "team:reader") && b.deleted(w, bindings, "x:y:z") })
	w.agree(b)
}
