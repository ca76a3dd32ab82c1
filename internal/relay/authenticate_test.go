// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"testing"

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

func claimOf(account, cluster, key string) Claim {
	return Claim{ClusterID: synchronizer.ClusterID{Account: account, Cluster: cluster}, AccessKey: key}
}

func hashOf(secret string) []byte {
	h := synchronizer.HashSecret(secret)
	return h[:]
}
