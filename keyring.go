// SPDX-License-Identifier: Apache-2.0

package synchronizer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Keyring is the access keys as those see them who give them out. What clients
// show is compared through Credentials. Errors that are no fault of the caller
// can be tried again.
type Keyring interface {
	// IssueAccessKey adds a key by the hash of its secret. A key that cannot be
	// (see IssuedKey.Validate) or whose hash or ID is known wraps ErrInvalid.
	IssueAccessKey(ctx context.Context, hash [32]byte, key IssuedKey) error

	// AccessKeys lists the keys of an account, of all if it is empty, revoked ones
	// too, ordered by account, cluster, creation and ID.
	AccessKeys(ctx context.Context, account string) ([]IssuedKey, error)

	// RevokeAccessKey makes a key of the account (of any, if it is empty) unknown to
	// Credentials from the return on, and gives it as it is then; one that was
	// revoked already keeps its time. ErrNotFound if there is none with this ID.
	RevokeAccessKey(ctx context.Context, account, id string, at time.Time) (IssuedKey, error)
}

// IssuedKey is an access key and what is known of it.
type IssuedKey struct {
	AccessKey
	// ID names the key to people: SecretID of its hash.
	ID string
	// Description says what it is for, in one line; may be empty.
	Description string
	Revoked     time.Time // zero: it is good
}

// MaxNameBytes bounds the account and the cluster of a client: they are in the key of
// every record and row. Clusters are called by URLs and ARNs at the longest.
const MaxNameBytes = 512

// maxDescription is how long a description may be, in bytes.
const maxDescription = 200

// Validate says what is wrong with a key that is to be issued: the account and the
// cluster must be such that a client can have them, the description one line of at
// most 200 bytes. Errors wrap ErrInvalid.
func (k *IssuedKey) Validate() error {
	id := k.ClusterID()
	if id.Cluster == "" {
		id.Cluster = "any"
	}
	if err := id.Validate(); err != nil {
		return err
	}
	for _, text := range []struct{ name, value string }{{"account", k.Account}, {"cluster", k.Cluster}, {"description", k.Description}} {
		if !utf8.ValidString(text.value) || strings.ContainsFunc(text.value, unicode.IsControl) {
			return fmt.Errorf("%w: the %s must be text without control characters", ErrInvalid, text.name)
		}
	}
	for _, text := range []struct{ name, value string }{{"account", k.Account}, {"cluster", k.Cluster}} {
		switch {
		case len(text.value) > MaxNameBytes:
			return fmt.Errorf("%w: the %s is longer than %d bytes", ErrInvalid, text.name, MaxNameBytes)
		case strings.TrimSpace(text.value) != text.value:
			return fmt.Errorf("%w: the %s has white space around it, which a header cannot have", ErrInvalid, text.name)
		}
	}
	if len(k.Description) > maxDescription {
		return fmt.Errorf("%w: the description is longer than %d bytes", ErrInvalid, maxDescription)
	}
	return nil
}

// ClusterID is the account and cluster that the key is for; the cluster may be empty.
func (k AccessKey) ClusterID() ClusterID { return ClusterID{Account: k.Account, Cluster: k.Cluster} }

// NewSecret makes a secret for a key or a token: 52 characters, 260 random bits.
func NewSecret() string { return rand.Text() + rand.Text() }

// SecretID names a secret by its hash without giving it away: 16 hex digits.
func SecretID(hash [32]byte) string { return hex.EncodeToString(hash[:8]) }
