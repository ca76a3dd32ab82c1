// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"synchronizer"
)

// keys are access keys by their secret. The other methods of Credentials are not
// used here.
type keys struct {
	synchronizer.Credentials
	known map[[32]byte]synchronizer.AccessKey
	err   error
}

func (k keys) AccessKey(_ context.Context, hash [32]byte) (synchronizer.AccessKey, error) {
	key, ok := k.known[hash]
	if !ok && k.err == nil {
		return key, synchronizer.ErrNotFound
	}
	return key, k.err
}

func TestAccessKeys(t *testing.T) {
	known := keys{known: map[[32]byte]synchronizer.AccessKey{
		synchronizer.HashSecret("of-account"): {Account: "a"},
		synchronizer.HashSecret("of-cluster"): {Account: "a", Cluster: "c"},
	}}
	down := keys{err: errors.New("database is locked")}
	for name, test := range map[string]struct {
		keys             keys
		account, cluster string
		key, refusal     string
		unavailable      bool
	}{
		"any cluster of the account": {keys: known, account: "a", cluster: "x", key: "of-account"},
		"its cluster":                {keys: known, account: "a", cluster: "c", key: "of-cluster"},
		"another cluster":            {keys: known, account: "a", cluster: "x", key: "of-cluster", refusal: "another cluster"},
		"another account":            {keys: known, account: "b", cluster: "c", key: "of-account", refusal: "another account"},
		"unknown":                    {keys: known, account: "a", cluster: "c", key: "nope", refusal: "unknown or was revoked"},
		"the hash is no key":         {keys: known, account: "a", cluster: "c", key: string(hashOf("of-account")), refusal: "unknown"},
		"placeholder of the sample":  {keys: known, account: "a", cluster: "c", key: "REPLACE_ME", refusal: "placeholder"},
		"placeholder of tests":       {keys: known, account: "a", cluster: "c", key: "test", refusal: "placeholder"},
		"white space":                {keys: known, account: "a", cluster: "c", key: "of-account\n", refusal: "white space"},
		"store is away":              {keys: down, account: "a", cluster: "c", key: "of-account", refusal: "reading access keys", unavailable: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := AccessKeys{Credentials: test.keys}.Authenticate(t.Context(), claimOf(test.account, test.cluster, test.key))
			if test.refusal == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.refusal)
			require.Equal(t, !test.unavailable, errors.Is(err, synchronizer.ErrUnauthorized), "%v", err)
			require.NotContains(t, err.Error(), test.key+" ", "a key in an error would be logged")
		})
	}
	require.NoError(t, Anonymous{}.Authenticate(t.Context(), Claim{}))
}

// hanging is a store that does not answer.
type hanging struct{ synchronizer.Credentials }

func (hanging) AccessKey(ctx context.Context, _ [32]byte) (synchronizer.AccessKey, error) {
	<-ctx.Done()
	return synchronizer.AccessKey{}, ctx.Err()
}

// TestAccessKeysOfAStoreThatHangs: the client is told to come later, before it gives up.
func TestAccessKeysOfAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := AccessKeys{Credentials: hanging{}}.Authenticate(t.Context(), claimOf("a", "c", "key"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, synchronizer.ErrUnauthorized, "nobody has decided")
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

func claimOf(account, cluster, key string) Claim {
	return Claim{ClusterID: synchronizer.ClusterID{Account: account, Cluster: cluster}, AccessKey: key}
}

// TestHints tell what is odd about a claim that was refused, and nothing of the key.
func TestHints(t *testing.T) {
	usual := strings.Repeat("AB27", 13)
	for _, test := range []struct {
		account, key string
		form         *keyForm
		want         string
	}{
		{"acme", usual, ownKeyForm, ""},
		{"22222222-3333-4444-8555-666666666666", "any thing", nil, ""},
		{"REPLACE_ME", usual, ownKeyForm, "the account is a placeholder: put the account that this server knows into the client's credentials"},
		{"test", usual, nil, "the account is a placeholder"},
		{" ", usual, nil, "the account is a placeholder"},
		{" acme", usual, nil, "the account has white space around it"},
		{`"acme"`, usual, nil, "the account has quotes around it"},
		{"acme corp", usual, nil, "the account is not of the usual form (letters, digits and . _ -)"},
		{"acme", "REPLACE_ME_KEY", ownKeyForm, "the access key is a placeholder"},
		{"acme", "test", ownKeyForm, "the access key is a placeholder"},
		{"acme", usual + " ", ownKeyForm, "the access key has white space around it"},
		{"acme", "'" + usual + "'", ownKeyForm, "the access key has quotes around it"},
		{"acme", usual[1:], ownKeyForm, "the access key is not of the usual form (52 characters, A to Z and 2 to 7)"},
		{"test", "test", nil, "the account is a placeholder: put the account that this server knows into the client's credentials; the access key is a placeholder"},
	} {
		got := strings.Join(hints(claimOf(test.account, "c", test.key), test.form), "; ")
		if test.want == "" {
			require.Empty(t, got)
			continue
		}
		require.True(t, strings.HasPrefix(got, test.want), got)
		require.NotContains(t, got, usual[1:])
	}
}

func hashOf(secret string) []byte {
	h := synchronizer.HashSecret(secret)
	return h[:]
}
