// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrNotBuilt says that the server's program is not in the cache. Building it
// takes minutes, so tests never do it on their own.
var ErrNotBuilt = errors.New("kubernetes for tests has not been built: run `make test`, or `go run ./test/kubetest/cmd/kubernetes-binary` in the checkout")

var kubernetesVersion = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)`)

// Binary returns the path of the built program, or ErrNotBuilt.
// The working directory must be inside the checkout.
func Binary(context.Context) (string, error) {
	_, path, err := locate()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", ErrNotBuilt
	}
	return path, nil
}

// Build returns the path of the program after building it if it is missing.
// A second builder, in this process or another, waits for the first. The first
// build of a machine takes minutes, which is said on progress, where the
// compiler's messages go as well. A link called kubectl is put beside the program.
func Build(ctx context.Context, progress io.Writer) (string, error) {
	source, path, err := locate()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("making cache folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(folder, "lock"))
	if err != nil {
		return "", fmt.Errorf("waiting for another build: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	_, _ = fmt.Fprintln(progress, "building kubernetes for tests; the first build takes minutes, later ones are cached in", folder)
	if err := build(ctx, source, path, progress); err != nil {
		return "", fmt.Errorf("building kubernetes for tests: %w", err)
	}
	return path, nil
}

func build(ctx context.Context, source, path string, progress io.Writer) error {
	text, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return err
	}
	version := kubernetesVersion.FindSubmatch(text)
	if version == nil {
		return errors.New("go.mod does not require k8s.io/kubernetes")
	}
	const variables = "k8s.io/component-base/version."
	flags := fmt.Sprintf("-s -w -X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s -X %[1]sgitTreeState=clean",
		variables, version[1], version[2], version[3])
	temporary := path + ".new"
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", temporary, ".")
	cmd.Dir = source
	// Neither a C compiler nor a workspace around the checkout shall matter.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = progress, progress
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return err
	}
	link := filepath.Join(filepath.Dir(path), "kubectl")
	if err := os.Symlink(filepath.Base(path), link); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Rename(temporary, path)
}

// locate returns the folder of the program's source and the path of the program
// built from exactly that source for this platform.
func locate() (source, path string, err error) {
	source, err = findSource()
	if err != nil {
		return "", "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	sum, err := sourceHash(source)
	if err != nil {
		return "", "", fmt.Errorf("hashing %s: %w", source, err)
	}
	return source, filepath.Join(cache, "synchronizer", "kubernetes-"+sum, "kubernetes"), nil
}

// findSource looks for test/kubernetes in the working directory and above it.
func findSource() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	for folder := start; ; folder = filepath.Dir(folder) {
		source := filepath.Join(folder, "test", "kubernetes")
		if _, err := os.Stat(filepath.Join(source, "go.mod")); err == nil {
			return source, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("finding the checkout: no test/kubernetes/go.mod in %s or above", start)
		}
	}
}

// sourceHash is 16 hexadecimal digits over the module's files and the platform.
func sourceHash(source string) (string, error) {
	names, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return "", err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	names = append(names, filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum"))
	slices.Sort(names)
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%s/%s\n", runtime.GOOS, runtime.GOARCH)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(name), len(text), text)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// lock takes the advisory lock on path, which the kernel releases should this
// process die, and returns the function that releases it.
func lock(ctx context.Context, path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
