// SPDX-License-Identifier: Apache-2.0

// Package baseline remembers objects as they were last sent, so that the next
// change of one can be sent as a patch against it.
//
// A baseline is only worth having: without one the whole object is sent. So the
// cache has a bound in bytes, keeps bodies compressed, and forgets first what
// was not used for longest.
package baseline
