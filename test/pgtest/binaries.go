// SPDX-License-Identifier: Apache-2.0

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
)

// binary finds a program of the server's package, of the newest version that is
// installed.
func binary(name string) (string, error) {
	newest, best := "", 0
	places, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	for _, place := range places {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(place))))
		if err == nil && version > best {
			newest, best = place, version
		}
	}
	if newest != "" {
		return newest, nil
	}
	if place, err := exec.LookPath(name); err == nil {
		return place, nil
	}
	return "", fmt.Errorf("finding PostgreSQL's %s: it is not installed; on Debian: apt-get install postgresql", name)
}

// owner is the user that servers run as when the tests run as root.
type owner struct{ uid, gid uint32 }

// serverOwner is nil unless this process is root's.
func serverOwner() (*owner, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("reading the user %s: %w", name, err)
		}
		return &owner{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("finding a user for PostgreSQL, which does not run as root: there is neither postgres nor nobody")
}

// makeFolder makes a folder that the owner of servers may enter. Its name is
// short: that of a socket may have 107 bytes.
func makeFolder(owner *owner) (string, error) {
	dir, err := os.MkdirTemp("", "pgtest")
	if err == nil && owner != nil && !open(dir) || err == nil && len(dir) > 80 {
		_ = os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", "pgtest")
	}
	if err != nil {
		return "", fmt.Errorf("making a folder for PostgreSQL: %w", err)
	}
	if owner != nil {
		err = os.Chown(dir, int(owner.uid), int(owner.gid))
	}
	return dir, err
}

// open reports whether every folder above dir may be entered by everybody.
func open(dir string) bool {
	for dir = filepath.Dir(dir); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// Program finds a program of the server's package, such as pg_dump.
func Program(name string) (string, error) { return binary(name) }
