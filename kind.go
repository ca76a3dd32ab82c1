// SPDX-License-Identifier: Apache-2.0

package synchronizer

import (
	"fmt"
	"strings"
)

// Kind names a kind of object by its group, version and plural resource, as the
// API server's paths do. The core group is the empty string.
type Kind struct {
	Group    string
	Version  string
	Resource string
}

// ParseKind reads the text form "group/version/resource"; the core group is
// empty ("/v1/pods"). Version and resource must not be empty: a record with
// another form ends the process of a server in the field, so it is refused here.
func ParseKind(s string) (Kind, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return Kind{}, fmt.Errorf("%w: kind %q is not of the form group/version/resource", ErrInvalid, s)
	}
	return Kind{Group: parts[0], Version: parts[1], Resource: parts[2]}, nil
}

// Valid reports whether the text form of k can be parsed back into k.
func (k Kind) Valid() bool {
	return k.Version != "" && k.Resource != "" &&
		!strings.Contains(k.Group, "/") && !strings.Contains(k.Version, "/") && !strings.Contains(k.Resource, "/")
}

// String is the text form "group/version/resource".
func (k Kind) String() string { return k.Group + "/" + k.Version + "/" + k.Resource }

// GroupVersion is "version" for the core group, else "group/version": the form
// of the apiVersion member.
func (k Kind) GroupVersion() string {
	if k.Group == "" {
		return k.Version
	}
	return k.Group + "/" + k.Version
}
