// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RegisterAPI makes the API server pass requests for a group and version to an
// HTTPS server of the test at address (127.0.0.1:port), as it does for an
// aggregated API, and waits until it does. The server's certificate is not
// verified; it must answer GET /apis/GROUP/VERSION. Who asks is in the headers
// X-Remote-User and X-Remote-Group, to be believed if the client certificate is
// signed by proxy-ca.crt in Dir.
func (c *Cluster) RegisterAPI(ctx context.Context, group, version, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("registering API: %w", err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("registering API: %w", err)
	}
	const namespace = "default"
	service := "aggregated-" + port
	for _, object := range []map[string]any{
		{
			// The aggregator resolves a service of this type to the name itself.
			"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{"namespace": namespace, "name": service},
			"spec": map[string]any{
				"type": "ExternalName", "externalName": "localhost",
				"ports": []any{map[string]any{"port": number}},
			},
		},
		{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": map[string]any{"name": version + "." + group},
			"spec": map[string]any{
				"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 10,
				"insecureSkipTLSVerify": true,
				"service":               map[string]any{"namespace": namespace, "name": service, "port": number},
			},
		},
	} {
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		if err := c.Apply(ctx, string(text)); err != nil {
			return err
		}
	}
	path := versionPath(schema.GroupVersion{Group: group, Version: version})
	return waitFor(ctx, "aggregated API "+path, func(ctx context.Context) (bool, error) {
		_, err := c.Get(ctx, path)
		return err == nil, nil
	})
}
