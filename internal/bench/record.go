// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"

	"synchronizer/internal/kube/recorded"
)

// Record makes the objects in the API server of o.Kubeconfig, keeps what it
// answers to a LIST of all Deployments in dir, and removes them again.
func Record(ctx context.Context, o SourceOptions, dir string, bar *Progress) (_ Data, err error) {
	src, err := openReal(ctx, o, bar)
	if err != nil {
		return Data{}, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	if err := recorded.Record(ctx, src.config, recorded.Deployments, dir); err != nil {
		return Data{}, err
	}
	set, err := recorded.Load(dir)
	if err != nil {
		return Data{}, err
	}
	if len(set.Items) < o.Objects {
		return Data{}, fmt.Errorf("the recording has %d objects instead of %d", len(set.Items), o.Objects)
	}
	return describe("recorded from a "+src.place(), set.Items)
}
