// SPDX-License-Identifier: Apache-2.0

// The client, under the name that the field's image gives it: configuration from
// CONFIG, CLUSTER_CONFIG, SERVICES and /etc/credentials. `synchronizer agent` is
// the same with flags.
package main

import (
	"context"
	"os"

	"synchronizer/internal/app"
	"synchronizer/internal/app/client"
)

func main() {
	os.Exit(app.Main(os.Stderr, func(ctx context.Context) error {
		return client.Run(ctx, client.Settings{AllowHome: true})
	}))
}
