// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// keyring: keys are listed by account, in order, and known to Credentials until
// they are revoked, by whoever may.
func keyring(t *testing.T, b Backend) {
	ctx := t.Context()
	keys, err := b.AccessKeys(ctx, "")
	require.NoError(t, err)
	require.Empty(t, keys)
	_, err = b.RevokeAccessKey(ctx, "", "0000000000000000", noon)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)

	issued := map[string]synchronizer.IssuedKey{}
	for _, key := range []struct{ secret, account, cluster, description string }{
		{"s1", "b", "", "of b"},
		{"s2", "a", "prod.eu", ""},
		{"s3", "a", "prod", "pröduction 'quoted' <&>"},
		{"s4", "a", "", ""},
		{"s5", "B", "arn:aws:eks:eu-north-1:000000000000:cluster/shop", strings.Repeat("x", 200)},
	} {
		hash := synchronizer.HashSecret(key.secret)
		k := synchronizer.IssuedKey{
			AccessKey: synchronizer.AccessKey{Account: key.account, Cluster: key.cluster, Created: noon}, Description: key.description,
		}
		require.NoError(t, b.IssueAccessKey(ctx, hash, k))
		k.ID = synchronizer.SecretID(hash)
		issued[key.secret] = k
		got, err := b.AccessKey(ctx, hash)
		require.NoError(t, err)
		require.Equal(t, k.AccessKey, got)
	}
	// One that was added without a word is listed too.
	require.NoError(t, b.AddAccessKey(ctx, synchronizer.HashSecret("s6"), synchronizer.AccessKey{Account: "local", Created: noon}))
	issued["s6"] = synchronizer.IssuedKey{AccessKey: synchronizer.AccessKey{Account: "local", Created: noon}, ID: synchronizer.SecretID(synchronizer.HashSecret("s6"))}
	list := func(account string, want ...string) {
		t.Helper()
		got, err := b.AccessKeys(ctx, account)
		require.NoError(t, err)
		keys := make([]synchronizer.IssuedKey, len(want))
		for i, secret := range want {
			keys[i] = issued[secret]
		}
		require.Equal(t, keys, got)
	}
	list("", "s5", "s4", "s3", "s2", "s1", "s6")
	list("a", "s4", "s3", "s2")
	list("B", "s5")

	for name, err := range map[string]error{
		"known":                b.IssueAccessKey(ctx, synchronizer.HashSecret("s1"), synchronizer.IssuedKey{AccessKey: synchronizer.AccessKey{Account: "c"}}),
		"no account":           b.IssueAccessKey(ctx, [32]byte{1}, synchronizer.IssuedKey{}),
		"slash":                b.IssueAccessKey(ctx, [32]byte{1}, synchronizer.IssuedKey{AccessKey: synchronizer.AccessKey{Account: "a/b"}}),
		"line break":           b.IssueAccessKey(ctx, [32]byte{1}, synchronizer.IssuedKey{AccessKey: synchronizer.AccessKey{Account: "a"}, Description: "x\ny"}),
		"long description":     b.IssueAccessKey(ctx, [32]byte{1}, synchronizer.IssuedKey{AccessKey: synchronizer.AccessKey{Account: "a"}, Description: strings.Repeat("x", 201)}),
		"cluster not UTF-8":    b.IssueAccessKey(ctx, [32]byte{1}, synchronizer.IssuedKey{AccessKey: synchronizer.AccessKey{Account: "a", Cluster: "\xff"}}),
		"control in a cluster": b.IssueAccessKey(ctx, [32]byte{1}, synchronizer.IssuedKey{AccessKey: synchronizer.AccessKey{Account: "a", Cluster: "a\x00"}}),
	} {
		require.ErrorIs(t, err, synchronizer.ErrInvalid, name)
	}

	// A key is revoked by its account or by one who may see all, and by nobody else.
	_, err = b.RevokeAccessKey(ctx, "b", issued["s3"].ID, noon)
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
	later := noon.Add(time.Hour)
	for i, secret := range []string{"s3", "s6"} {
		k := issued[secret]
		k.Revoked = later
		issued[secret] = k
		got, err := b.RevokeAccessKey(ctx, []string{"a", ""}[i], k.ID, later)
		require.NoError(t, err)
		require.Equal(t, k, got)
		_, err = b.AccessKey(ctx, synchronizer.HashSecret(secret))
		require.ErrorIs(t, err, synchronizer.ErrNotFound)
		got, err = b.RevokeAccessKey(ctx, "", k.ID, later.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, k, got, "it keeps its time")
	}
	for _, secret := range []string{"s1", "s2", "s4", "s5"} {
		_, err = b.AccessKey(ctx, synchronizer.HashSecret(secret))
		require.NoError(t, err, "the others stay good")
	}
	list("", "s5", "s4", "s3", "s2", "s1", "s6")
	require.ErrorIs(t, b.IssueAccessKey(ctx, synchronizer.HashSecret("s3"), synchronizer.IssuedKey{AccessKey: synchronizer.AccessKey{Account: "a"}}),
		synchronizer.ErrInvalid, "a revoked key does not come back")

	again := b.Reopen(t)
	_, err = again.AccessKey(ctx, synchronizer.HashSecret("s3"))
	require.ErrorIs(t, err, synchronizer.ErrNotFound)
}
