// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl runs kubectl as administrator and returns its standard output. The
// error of a command that fails holds what it wrote to standard error. A
// --kubeconfig among args names another user.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.binary, append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+c.Kubeconfig,
		// The person's own settings and discovery cache shall not matter.
		"KUBECTL_KUBERC=false",
		"KUBECACHEDIR="+filepath.Join(c.Dir, "kubectl-cache"),
	)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("running kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
