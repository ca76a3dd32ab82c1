// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"synchronizer/internal/checksum"
	"synchronizer/test/kubetest"
)

func command(guid, status string) string {
	return fmt.Sprintf(`{"apiVersion":"kubescape.io/v1alpha1","kind":"OperatorCommand","metadata":{"name":"run"},"spec":{"guid":%q,"commandType":"scan"}%s}`, guid, status)
}

func TestCommandsDoNotRunTwice(t *testing.T) {
	e := start(t)
	require.NoError(t, server.CreateCRD(t.Context(), "kubescape.io", "v1alpha1", "operatorcommands", "OperatorCommand", kubetest.Namespaced))
	first := e.puts(Applied, commandKind, "run", command("1", ""))

	// The operator carries it out. A replay, or another order of the same name, does
	// not touch it: a change would be carried out as well.
	e.alter(commandKind, "run", `{"status":{"started":true,"completed":true}}`)
	for _, guid := range []string{"1", "2"} {
		result := e.puts(Unchanged, commandKind, "run", command(guid, ""))
		require.Equal(t, ReasonExists, result.Reason)
	}
	require.Equal(t, `"1"`, e.at(commandKind, "run", "spec", "guid"))
	require.Equal(t, `true`, e.at(commandKind, "run", "status", "completed"))
	require.Empty(t, e.cluster.updated)
	patch, err := e.Patch(t.Context(), commandKind, e.namespace, "run", []byte(`{"spec":{"guid":"3"}}`), "")
	require.NoError(t, err)
	require.Equal(t, ReasonNotPatched, patch.Reason)

	// Carried out and cleaned up.
	_, err = server.Do(t.Context(), http.MethodDelete, e.path(commandKind, "run"), "", nil)
	require.NoError(t, err)
	result := e.puts(Refused, commandKind, "run", command("1", ""))
	require.Equal(t, ReasonRan, result.Reason)
	result = e.puts(Refused, commandKind, "run", command("4", `,"status":{"started":true}`))
	require.Equal(t, ReasonRan, result.Reason)
	_, err = server.Get(t.Context(), e.path(commandKind, "run"))
	require.Error(t, err)

	// Another order may have the same name.
	again := e.puts(Applied, commandKind, "run", command("5", `,"status":{}`))
	require.NotEqual(t, first.ResourceVersion, again.ResourceVersion)

	// One of an earlier process is found in the cluster.
	restarted := New(e.options)
	same, err := restarted.Put(t.Context(), commandKind, e.namespace, "run", []byte(command("5", "")))
	require.NoError(t, err)
	require.Equal(t, ReasonExists, same.Reason)
	require.Equal(t, Unchanged, same.Outcome)
}

func TestCommandsAreForgottenOldestFirst(t *testing.T) {
	var c commands
	digest := func(i int) (d checksum.Digest) {
		copy(d[:], fmt.Sprintf("%015d", i))
		return d
	}
	for i := range mostCommands + 10 {
		c.add(digest(i))
		c.add(digest(i))
	}
	require.Len(t, c.known, mostCommands)
	require.False(t, c.has(digest(9)))
	require.True(t, c.has(digest(10)))
	require.True(t, c.has(digest(mostCommands+9)))
}
