// SPDX-License-Identifier: Apache-2.0

//go:build !race

package queuetest

// eachKey is the default of Factory.EachKey.
const eachKey = 1000
