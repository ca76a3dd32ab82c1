// SPDX-License-Identifier: Apache-2.0

// Package index says what of an object can be searched for: its labels, and the
// words in its namespace, name, label values and images. Both stores index the
// same.
package index
