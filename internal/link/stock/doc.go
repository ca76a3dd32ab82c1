// SPDX-License-Identifier: Apache-2.0

// Package stock plays the peers that exist in the field, for tests.
//
// A [Client] says what a client in the field says: it has a [Cluster] of objects
// and answers requests by the rules that were recorded, with all oddities: no
// answer where none comes, patches that round integers, a base that poisons an
// object. A [Server] accepts clients and gives their frames to the test.
//
// Nothing here uses package wire or package link: it is a second, independent
// reading of the protocol, checked against the recorded frames in
// testdata/frames-v1.jsonl. Numbers in comments are those of the recording's
// list of habits.
package stock
