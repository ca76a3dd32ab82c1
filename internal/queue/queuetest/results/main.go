// SPDX-License-Identifier: Apache-2.0

// Command results reads a file with the output of "go test -json" of the packages
// that run the suite of package queuetest, and prints the page of
// docs/queue-results.md. It runs in the folder of go.mod, by scripts/queues.sh. What
// failed is printed on standard error, and makes the exit status 1.
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: results FILE")
		os.Exit(2)
	}
	r, err := readFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "reading test results:", err)
		os.Exit(1)
	}
	if mod, err := os.ReadFile("go.mod"); err == nil {
		r.readVersion(string(mod))
	}
	fmt.Print(r.page())
	if failures := r.failures(); failures != "" {
		fmt.Fprint(os.Stderr, failures)
		os.Exit(1)
	}
}

func readFile(name string) (*results, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(bufio.NewReader(f))
}
