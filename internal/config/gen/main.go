// SPDX-License-Identifier: Apache-2.0

// Command gen writes the reference page docs/configuration.md from the declarations of package
// config. It runs in the folder of that package, by `go generate ./internal/config`.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	page := filepath.Join("..", "..", "docs", "configuration.md")
	if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "writing the reference page:", err)
		os.Exit(1)
	}
	if err := os.WriteFile(page, []byte(reference()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "writing the reference page:", err)
		os.Exit(1)
	}
}
