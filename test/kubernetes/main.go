// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

const usage = `usage:
  kubernetes run --dir DIR [flags] [-- kube-apiserver flags]
  kubernetes kubectl ...
`

func main() {
	os.Exit(dispatch(os.Args))
}

// dispatch runs the subcommand that args name and returns the exit status.
func dispatch(args []string) int {
	if filepath.Base(args[0]) == "kubectl" {
		return kubectl(args[1:])
	}
	if len(args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	switch args[1] {
	case "kubectl":
		return kubectl(args[2:])
	case "run":
		return runUntilSignal(args[2:])
	default:
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
}

func runUntilSignal(args []string) int {
	settings, err := parseSettings(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// A second signal has its default effect and ends the process at once.
	context.AfterFunc(ctx, stop)
	if settings.exitWithStdin {
		ctx = cancelAtEOF(ctx, os.Stdin)
	}
	if err := run(ctx, settings, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		return 1
	}
	return 0
}
