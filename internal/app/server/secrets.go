// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"synchronizer"
)

// LocalAccount is the account that a first start makes.
const LocalAccount = "local"

// Secrets are the secrets of the data directory. Made says that they were made
// just now.
type Secrets struct {
	AccessKey, APIToken         string
	AccessKeyFile, APITokenFile string
	Made                        bool
	// Revoked says that the access key in its file was revoked.
	Revoked bool
}

// ensureSecrets makes, at the first start, an access key for the account "local"
// and an API token for the administrator, and keeps both in the data directory
// (mode 0600). A file that exists is put into the store again if the store lacks
// it, so that a new database goes on with the secrets that people have. A key that
// was revoked stays so.
func ensureSecrets(ctx context.Context, store synchronizer.Credentials, dataDir string, keys bool) (Secrets, error) {
	s := Secrets{AccessKeyFile: accessKeyFile(dataDir), APITokenFile: TokenFile(dataDir)}
	var made bool
	var err error
	if s.APIToken, made, err = readOrMake(s.APITokenFile); err != nil {
		return s, err
	}
	s.Made = made
	hash := synchronizer.HashSecret(s.APIToken)
	if _, err := store.APIToken(ctx, hash); errors.Is(err, synchronizer.ErrNotFound) {
		err = store.AddAPIToken(ctx, hash, synchronizer.APIToken{Scope: "admin", Created: time.Now()})
		if err != nil {
			return s, fmt.Errorf("storing the API token: %w", err)
		}
	} else if err != nil {
		return s, fmt.Errorf("reading the API token: %w", err)
	}
	if !keys {
		return s, nil
	}
	if s.AccessKey, made, err = readOrMake(s.AccessKeyFile); err != nil {
		return s, err
	}
	s.Made = s.Made || made
	hash = synchronizer.HashSecret(s.AccessKey)
	_, err = store.AccessKey(ctx, hash)
	if errors.Is(err, synchronizer.ErrNotFound) {
		err = store.AddAccessKey(ctx, hash, synchronizer.AccessKey{Account: LocalAccount, Created: time.Now()})
		if errors.Is(err, synchronizer.ErrInvalid) { // known all the same: another server was faster, or it was revoked
			_, err = store.AccessKey(ctx, hash)
			s.Revoked = errors.Is(err, synchronizer.ErrNotFound)
		}
		if err != nil && !s.Revoked {
			return s, fmt.Errorf("storing the access key: %w", err)
		}
	} else if err != nil {
		return s, fmt.Errorf("reading the access key: %w", err)
	}
	return s, nil
}

// readOrMake reads the secret in a file, or makes one and writes it whole
// before the file has its name.
func readOrMake(name string) (secret string, made bool, err error) {
	text, err := os.ReadFile(name)
	if err == nil {
		if secret = strings.TrimSpace(string(text)); secret == "" {
			return "", false, fmt.Errorf("reading %s: the file is empty; remove it to have a new secret made", name)
		}
		return secret, false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("reading secret: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", false, fmt.Errorf("making the data directory: %w", err)
	}
	secret = synchronizer.NewSecret()
	tmp := name + ".new"
	if err := os.WriteFile(tmp, []byte(secret+"\n"), 0o600); err != nil {
		return "", false, fmt.Errorf("writing secret: %w", err)
	}
	if err := os.Rename(tmp, name); err != nil {
		return "", false, fmt.Errorf("writing secret: %w", err)
	}
	return secret, true, nil
}
