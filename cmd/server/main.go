// SPDX-License-Identifier: Apache-2.0

// The server, under the name that the field's image gives it: configuration from
// CONFIG. `synchronizer server` is the same with flags.
package main

import (
	"context"
	"os"

	"synchronizer/internal/app"
	"synchronizer/internal/app/server"
)

func main() {
	os.Exit(app.Main(os.Stderr, func(ctx context.Context) error {
		return server.Run(ctx, "")
	}))
}
