// SPDX-License-Identifier: Apache-2.0

// Package walk lists objects: page by page, in the order of their keys, kind after
// kind along an index of the database. A store gives it the index (Index) and the
// kinds that the caller may see; both stores answer every query in the same way.
//
// No page looks at more than a bounded number of rows beyond those that it
// returns: what no index finds ends with a short page and a token to go on with.
//
// Labels and words are found by their hashes where they are rare in a kind. A
// label or word that many rows have is filtered on the walk, where it is met
// often. That a label exists, or that something is not the case, is always
// checked on the rows of the walk.
package walk
