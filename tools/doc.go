// SPDX-License-Identifier: Apache-2.0

// Package tools pins the linters that scripts/lint.sh runs, in a module of its
// own, so that the product's go.mod names only what the product needs. To move to
// a newer one:
//
//	go get -C tools -tool honnef.co/go/tools/cmd/staticcheck@latest
package tools
