// SPDX-License-Identifier: Apache-2.0

package synchronizer

// Version is the version of this program, as clients announce it. An image may
// say another one in RELEASE.
const Version = "v0.1.0"
