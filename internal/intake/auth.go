// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"errors"
	"strconv"
	"strings"
)

// The environment that the endpoint reads, as in the field.
const (
	envAudience  = "KS_API_AUDIENCE"
	envDisabled  = "KS_API_AUTH_DISABLED"
	envNamespace = "POD_NAMESPACE"

	defaultAudience = "kubescape.io"
)

// maxTokenBytes is more than a service account token has, a few times over.
const maxTokenBytes = 16 << 10

// ErrNoNamespace is the start error of an endpoint that cannot check its callers.
var ErrNoNamespace = errors.New("the HTTP endpoint cannot check its callers: " + envNamespace + " is not set. " +
	"Set it to the pod's namespace (env " + envNamespace + " with valueFrom.fieldRef metadata.namespace), " +
	"or leave out httpEndpoint from the configuration, or accept every caller with " + envDisabled + "=true")

// Auth says how callers are checked.
type Auth struct {
	Disabled  bool
	Audience  string // that tokens must be made for; empty: kubescape.io
	Namespace string // in which callers must be allowed to create the resource
}

// ReadAuth reads KS_API_AUDIENCE, KS_API_AUTH_DISABLED and POD_NAMESPACE. Only a
// clear yes turns the check off.
func ReadAuth(getenv func(string) string) Auth {
	disabled, err := strconv.ParseBool(strings.TrimSpace(getenv(envDisabled)))
	a := Auth{
		Disabled:  err == nil && disabled,
		Audience:  strings.TrimSpace(getenv(envAudience)),
		Namespace: strings.TrimSpace(getenv(envNamespace)),
	}
	if a.Audience == "" {
		a.Audience = defaultAudience
	}
	return a
}
