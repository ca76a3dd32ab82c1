// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"synchronizer"
)

// Authenticator decides who may connect. An error that wraps ErrUnauthorized
// refuses the client (401) and its text says why, without the key; every other
// error means that nobody could decide (503). It is called once per connection,
// before the upgrade.
type Authenticator interface {
	Authenticate(ctx context.Context, id synchronizer.ClusterID, accessKey string) error
}

// Anonymous lets every client in, as whoever it says it is. Only for a loopback
// listener or where something in front has authenticated.
type Anonymous struct{}

// Authenticate always agrees.
func (Anonymous) Authenticate(context.Context, synchronizer.ClusterID, string) error { return nil }

// AccessKeys compares keys with those that the store keeps, hashed.
type AccessKeys struct{ Credentials synchronizer.Credentials }

// Authenticate agrees if the key exists and belongs to the account, and to the
// cluster if the key is bound to one.
func (a AccessKeys) Authenticate(ctx context.Context, id synchronizer.ClusterID, accessKey string) error {
	key, err := a.Credentials.AccessKey(ctx, synchronizer.HashSecret(accessKey))
	switch {
	case errors.Is(err, synchronizer.ErrNotFound):
		return fmt.Errorf("%w: %s", synchronizer.ErrUnauthorized, refusal(accessKey))
	case err != nil:
		return fmt.Errorf("reading access keys: %w", err)
	case key.Account != id.Account:
		return fmt.Errorf("%w: the access key belongs to another account than %q", synchronizer.ErrUnauthorized, id.Account)
	case key.Cluster != "" && key.Cluster != id.Cluster:
		return fmt.Errorf("%w: the access key is bound to another cluster than %q", synchronizer.ErrUnauthorized, id.Cluster)
	}
	return nil
}

// refusal explains an unknown key where its form shows what went wrong.
func refusal(key string) string {
	switch {
	case strings.HasPrefix(key, "REPLACE_ME"), key == "test":
		return "the access key is a placeholder: put the key of this server into the client's credentials"
	case strings.TrimSpace(key) != key:
		return "the access key has white space around it"
	}
	return "the access key is unknown or was revoked"
}
