// SPDX-License-Identifier: Apache-2.0

// Package discovery is how clients find their server: the document of
// /api/v2/servicediscovery and /api/v3/servicediscovery, as servers answer it
// (Handler) and clients ask for it (Client). It needs no credentials and tells
// nothing but addresses.
package discovery
