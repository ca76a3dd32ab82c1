// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sqlite

import "testing"

// asNobody does nothing: elsewhere the tests do not run as root.
func asNobody(*testing.T) {}
