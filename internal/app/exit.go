// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"synchronizer"
	"synchronizer/internal/config"
)

// Exit codes of all programs.
const (
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2 // wrong flags or configuration
)

// ErrUsage marks an error of the command line.
var ErrUsage = errors.New("usage")

// ExitCode is the exit code for err.
func ExitCode(err error) int {
	var problems config.Problems
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &problems), errors.Is(err, ErrUsage):
		return ExitUsage
	}
	return ExitError
}

// Main runs a program until it ends or SIGINT or SIGTERM asks it to, prints its
// error and gives its exit code. A second signal ends the process at once.
func Main(stderr io.Writer, run func(context.Context) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "Error:", err)
		if remedy := remedyFor(err); remedy != "" {
			_, _ = fmt.Fprintln(stderr, remedy)
		}
	}
	return ExitCode(err)
}

// remedyFor says what to do about errors whose text alone does not.
func remedyFor(err error) string {
	switch {
	case errors.Is(err, synchronizer.ErrUnauthorized):
		return "The server refused the credentials: check account and access key (/etc/credentials, inCluster.account, inCluster.accessKey; a server's first start writes its key to <data directory>/access-key)."
	case errors.Is(err, synchronizer.ErrSchemaTooNew):
		return "Use the version of this program that wrote the database, or another data directory."
	}
	return ""
}

// Warn logs every notice about the configuration.
func Warn(log *slog.Logger, warnings config.Warnings) {
	for _, w := range warnings {
		log.Warn("configuration: " + w.String())
	}
}
