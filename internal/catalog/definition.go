// SPDX-License-Identifier: Apache-2.0

package catalog

import "strings"

// Change is what happened to a definition.
type Change uint8

// The changes. Listed is sent for those that existed before.
const (
	Listed Change = iota + 1
	Added
	Modified
	Deleted
)

// Definition is what is heard of a CustomResourceDefinition or an APIService.
type Definition struct {
	Change     Change
	Name       string // "<plural>.<group>" or "<version>.<group>"
	UID        string
	Generation int64 // changes with the spec, not with the status
}

// Group is the group that the definition is about.
func (d Definition) Group() string {
	_, group, _ := strings.Cut(d.Name, ".")
	return group
}
