// SPDX-License-Identifier: Apache-2.0

// Command kubernetes-binary prints the path of the Kubernetes API server that
// tests use, after building it if it is missing. The first build takes minutes.
// Scripts use it:
//
//	kubernetes=$(go run ./test/kubetest/cmd/kubernetes-binary)
//	"$kubernetes" run --dir "$dir" &
//	"$kubernetes" kubectl --kubeconfig "$dir/kubeconfig" get namespaces
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"synchronizer/test/kubetest"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := kubetest.Build(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes-binary:", err)
		return 1
	}
	fmt.Println(path)
	return 0
}
