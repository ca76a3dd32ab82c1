// SPDX-License-Identifier: Apache-2.0

// Package checksum tells whether two states of an object, or two sets of
// objects, are equal, without comparing their bodies.
//
// There are two checksums of an object. V1 is what peers in the field compute
// and compare on link v1; it is blind to the order of arrays and to integers
// above 2^53, and cannot tell {}, [] and "" apart. V2 is exact and is what link
// v2 and our own decisions ("did anything change?") use.
//
// Set is the hash of a set of objects that a state proof compares: the XOR of
// the hashes of its entries, so it is kept up to date entry by entry, in any order.
//
// In both checksums the last of duplicate member names wins, and strings count
// as they read after decoding: escapes do not matter, and invalid UTF-8 counts
// as U+FFFD.
package checksum
