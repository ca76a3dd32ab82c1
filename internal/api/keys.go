// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"synchronizer"
)

// AccessKey is an access key as the API shows it. Secret is there only in the
// answer that made it.
type AccessKey struct {
	ID          string    `json:"id"`
	Account     string    `json:"account"`
	Cluster     string    `json:"cluster,omitempty"` // empty: every cluster of the account
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created,omitzero"`
	Revoked     time.Time `json:"revoked,omitzero"` // absent: it is good
	Secret      string    `json:"secret,omitempty"`
}

// AccessKeyList is the answer of GET /api/v1/accesskeys.
type AccessKeyList struct {
	Items []AccessKey `json:"items"`
}

// NewAccessKey is the body of POST /api/v1/accesskeys.
type NewAccessKey struct {
	Account     string `json:"account"`
	Cluster     string `json:"cluster,omitempty"`
	Description string `json:"description,omitempty"`
	// Secret is a key that clients have already; empty: one is made.
	Secret string `json:"secret,omitempty"`
}

const (
	maxKeyRequest = 16 << 10
	// A secret that is given must be worth its name, and a header.
	minSecret, maxSecret = 16, 512
)

// IssueKey makes a key, or takes the one that clients have, and stores its hash.
// The answer is the only one that holds the secret. Errors wrap ErrInvalid if the
// key cannot be.
func IssueKey(ctx context.Context, ring synchronizer.Keyring, k NewAccessKey, now time.Time) (AccessKey, error) {
	secret := k.Secret
	switch {
	case secret == "":
		secret = synchronizer.NewSecret()
	case len(secret) < minSecret || len(secret) > maxSecret:
		return AccessKey{}, fmt.Errorf("%w: the key must have %d to %d characters", synchronizer.ErrInvalid, minSecret, maxSecret)
	case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		return AccessKey{}, fmt.Errorf("%w: the key must be printable ASCII without blanks: it travels in a header", synchronizer.ErrInvalid)
	}
	issued := synchronizer.IssuedKey{
		AccessKey:   synchronizer.AccessKey{Account: k.Account, Cluster: k.Cluster, Created: now.UTC().Truncate(time.Microsecond)},
		Description: k.Description,
	}
	hash := synchronizer.HashSecret(secret)
	if err := ring.IssueAccessKey(ctx, hash, issued); err != nil {
		return AccessKey{}, err
	}
	issued.ID = synchronizer.SecretID(hash)
	out := keyOf(issued)
	out.Secret = secret
	return out, nil
}

// ListKeys lists keys, revoked ones too; an empty account means all.
func ListKeys(ctx context.Context, ring synchronizer.Keyring, account string) ([]AccessKey, error) {
	keys, err := ring.AccessKeys(ctx, account)
	list := make([]AccessKey, len(keys))
	for i, k := range keys {
		list[i] = keyOf(k)
	}
	return list, err
}

// RevokeKey revokes a key of the account, or of any if it is empty.
func RevokeKey(ctx context.Context, ring synchronizer.Keyring, account, id string, now time.Time) (AccessKey, error) {
	key, err := ring.RevokeAccessKey(ctx, account, id, now)
	return keyOf(key), err
}

func keyOf(k synchronizer.IssuedKey) AccessKey {
	return AccessKey{ID: k.ID, Account: k.Account, Cluster: k.Cluster, Description: k.Description, Created: k.Created, Revoked: k.Revoked}
}

// administrator wants the scope admin for a whole account, and gives that account
// (empty: all). What of wanted is outside of it is not found.
func administrator(r *http.Request, wanted string) (account string, err error) {
	token, ok := r.Context().Value(tokenKey{}).(synchronizer.APIToken)
	switch {
	case !ok:
		return "", &Problem{Status: http.StatusUnauthorized, Title: "unauthorized"}
	case token.Scope != "admin" || token.Cluster != "":
		return "", &Problem{Status: http.StatusForbidden, Title: "forbidden", Detail: "access keys are for API tokens with the scope admin of a whole account"}
	case token.Account == "":
		return wanted, nil
	case wanted != "" && wanted != token.Account:
		return "", notVisible
	}
	return token.Account, nil
}

func (s *server) listKeys(w http.ResponseWriter, r *http.Request) error {
	if err := checkParameters(r.URL.Query(), map[string]bool{"account": false}); err != nil {
		return err
	}
	account, err := administrator(r, r.URL.Query().Get("account"))
	if err != nil {
		return err
	}
	list, err := ListKeys(r.Context(), s.Keys, account)
	if err != nil {
		return err
	}
	return writeJSON(w, AccessKeyList{Items: list})
}

func (s *server) createKey(w http.ResponseWriter, r *http.Request) error {
	var k NewAccessKey
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxKeyRequest))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&k); err != nil {
		return fmt.Errorf("%w: the body is not a new access key: %w", synchronizer.ErrInvalid, err)
	}
	account, err := administrator(r, k.Account)
	if err != nil {
		return err
	}
	if k.Account == "" {
		k.Account = account
	}
	key, err := IssueKey(r.Context(), s.Keys, k, time.Now())
	if err != nil {
		return err
	}
	s.Logger.Info("access key created", "id", key.ID, "account", key.Account, "cluster", key.Cluster)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	return writeJSON(w, key)
}

func (s *server) revokeKey(w http.ResponseWriter, r *http.Request) error {
	account, err := administrator(r, "")
	if err != nil {
		return err
	}
	key, err := RevokeKey(r.Context(), s.Keys, account, r.PathValue("id"), time.Now())
	if err != nil {
		return err
	}
	s.Logger.Info("access key revoked", "id", key.ID, "account", key.Account, "cluster", key.Cluster)
	return writeJSON(w, key)
}

// CreateKey makes an access key.
func (c *Client) CreateKey(ctx context.Context, k NewAccessKey) (key AccessKey, err error) {
	err = c.send(ctx, http.MethodPost, "/api/v1/accesskeys", nil, k, &key)
	return key, err
}

// Keys lists the access keys of an account; empty: of all that the token may see.
func (c *Client) Keys(ctx context.Context, account string) ([]AccessKey, error) {
	var query url.Values
	if account != "" {
		query = url.Values{"account": {account}}
	}
	var list AccessKeyList
	err := c.send(ctx, http.MethodGet, "/api/v1/accesskeys", query, nil, &list)
	return list.Items, err
}

// RevokeKey revokes an access key by its ID.
func (c *Client) RevokeKey(ctx context.Context, id string) (key AccessKey, err error) {
	err = c.send(ctx, http.MethodDelete, "/api/v1/accesskeys/"+url.PathEscape(id), nil, nil, &key)
	return key, err
}

// send is get for requests that may change something.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body, into any) error {
	address := strings.TrimSuffix(c.Server, "/") + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("writing the request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return fmt.Errorf("reading the address of the server: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	client := c.HTTP
	if client == nil {
		client = defaultHTTP()
	}
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("asking %s: %w", c.Server, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		return problemOf(response)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", c.Server, err)
	}
	return nil
}

// IsNotFound reports whether err says that something does not exist, whichever way
// it came.
func IsNotFound(err error) bool {
	return IsStatus(err, http.StatusNotFound) || errors.Is(err, synchronizer.ErrNotFound)
}
