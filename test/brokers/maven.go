// SPDX-License-Identifier: Apache-2.0

package brokers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// fetchPatience bounds the download of a broker (40 to 250 MB), or the wait for
// another process that fetches it.
const fetchPatience = 15 * time.Minute

// fetch returns the folder with the jars of a broker, as "scripts/<name>.sh fetch"
// prints it after fetching what lacks.
func fetch(ctx context.Context, name string) (string, error) {
	root, err := checkout()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts", name+".sh"), "fetch")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("fetching %s: %w\n%s", name, err, said.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// checkout is the folder of the module, above the working directory of the tests.
func checkout() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	for folder := start; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "scripts", "brokers.sh")); err == nil {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("finding the checkout: no scripts/brokers.sh in %s or above", start)
		}
	}
}

// CacheFolder is where brokers are kept between runs, the same as in
// scripts/brokers.sh: $SYNCHRONIZER_CACHE/brokers, else synchronizer/brokers below
// the user's cache folder.
func CacheFolder() (string, error) {
	if dir := os.Getenv("SYNCHRONIZER_CACHE"); dir != "" {
		return filepath.Join(dir, "brokers"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	return filepath.Join(dir, "synchronizer", "brokers"), nil
}
