// SPDX-License-Identifier: Apache-2.0

//go:build race

package queuetest

// eachKey is the default of Factory.EachKey: the race detector makes all that is
// done per record slower, and the page of results is made without it.
const eachKey = 200
