// SPDX-License-Identifier: Apache-2.0

// Package trial reads objects from files, as people write them for kubectl, and tells
// what a policy changed in them, so that a policy can be tried before a cluster has it.
//
// JSON stays as it is, byte for byte. YAML is turned into JSON, which may write numbers
// in another way than the API server does.
package trial
