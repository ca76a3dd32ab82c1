// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"synchronizer"
)

// Authenticator decides who may connect. An error that wraps ErrUnauthorized
// refuses the client (401) and its text says why, without the key; every other
// error means that nobody could decide (503). It is called once per connection,
// before the upgrade.
type Authenticator interface {
	Authenticate(ctx context.Context, claim Claim) error
}

// Claim is who a client says it is and what it shows for it. As text it is its
// account and cluster only.
type Claim struct {
	synchronizer.ClusterID
	AccessKey string
	Header    http.Header // of its request; read only, and not kept
}

// Anonymous lets every client in, as whoever it says it is. Only for a loopback
// listener or where something in front has authenticated.
type Anonymous struct{}

// Authenticate always agrees.
func (Anonymous) Authenticate(context.Context, Claim) error { return nil }

// AccessKeys compares keys with those that the store keeps, hashed.
type AccessKeys struct {
	Credentials synchronizer.Credentials
	Keys        synchronizer.Keyring // makes Recheck of many clients cheap; may be nil
}

// Authenticate agrees if the key exists and belongs to the account, and to the
// cluster if the key is bound to one.
func (a AccessKeys) Authenticate(ctx context.Context, claim Claim) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout) // a client that hears nothing cannot know to come later
	defer cancel()
	key, err := a.Credentials.AccessKey(ctx, synchronizer.HashSecret(claim.AccessKey))
	switch {
	case errors.Is(err, synchronizer.ErrNotFound):
		return because(errUnknownKey, hints(claim, ownKeyForm))
	case err != nil:
		return fmt.Errorf("reading access keys: %w", err)
	}
	return suits(key, claim.ClusterID)
}

var errUnknownKey = fmt.Errorf("%w: the access key is unknown or was revoked", synchronizer.ErrUnauthorized)

// suits says whether a key is for a cluster.
func suits(key synchronizer.AccessKey, id synchronizer.ClusterID) error {
	switch {
	case key.Account != id.Account:
		return fmt.Errorf("%w: the access key belongs to another account than %q", synchronizer.ErrUnauthorized, id.Account)
	case key.Cluster != "" && key.Cluster != id.Cluster:
		return fmt.Errorf("%w: the access key is bound to another cluster than %q", synchronizer.ErrUnauthorized, id.Cluster)
	}
	return nil
}

// because adds to a refusal what may be behind it.
func because(err error, hints []string) error {
	if len(hints) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, strings.Join(hints, "; "))
}

// hints say what is odd about a claim that was refused, so that the log tells a
// forgotten value from an attack. form describes usual keys; nil: unknown.
func hints(claim Claim, form *keyForm) []string {
	var found []string
	for _, value := range []struct{ name, text string }{{"account", claim.Account}, {"access key", claim.AccessKey}} {
		switch text := value.text; {
		case isPlaceholder(text):
			found = append(found, "the "+value.name+" is a placeholder: put the "+value.name+" that this server knows into the client's credentials")
		case strings.TrimSpace(text) != text:
			found = append(found, "the "+value.name+" has white space around it")
		case strings.Trim(text, `"'`) != text:
			found = append(found, "the "+value.name+" has quotes around it")
		case value.name == "account" && !usualAccount.MatchString(text):
			found = append(found, "the account is not of the usual form (letters, digits and . _ -)")
		case value.name == "access key" && form != nil && !form.pattern.MatchString(text):
			found = append(found, "the access key is not of the usual form ("+form.text+")")
		}
	}
	return found
}

// isPlaceholder recognizes what samples and charts have where a value belongs.
func isPlaceholder(text string) bool {
	return strings.HasPrefix(text, "REPLACE_ME") || text == "test" || strings.TrimSpace(text) == ""
}

var usualAccount = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// keyForm is how the keys of somebody look.
type keyForm struct {
	pattern *regexp.Regexp
	text    string
}

// ownKeyForm is that of keys that `synchronizer keys create` makes.
var ownKeyForm = &keyForm{regexp.MustCompile(`^[A-Z2-7]{52}$`), "52 characters, A to Z and 2 to 7"}
