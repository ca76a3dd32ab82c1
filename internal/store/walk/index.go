// SPDX-License-Identifier: Apache-2.0

package walk

import (
	"context"

	"synchronizer"
	"synchronizer/internal/store/index"
)

// Kind is a kind of one cluster that the caller may see, with its number in the
// database.
type Kind struct {
	ID int64
	synchronizer.ClusterKind
}

// Index is what a walk needs of a database. All calls of one page see the same
// state of it. A kind is named by its number.
type Index interface {
	Ranges
	Postings

	// Bodies reads the bodies of these objects, any number of them, in any order.
	Bodies(ctx context.Context, ids []int64, each func(id int64, body []byte)) error
}

// Ranges reads along the index of keys.
type Ranges interface {
	// Scan calls each with the rows of a range in the order (namespace, name), at
	// most limit of them, until it returns false. The row is the callee's.
	Scan(ctx context.Context, kind Kind, r Range, limit int, each func(*Found) bool) error
	// Spaces steps from namespace to namespace, from the given one on, without
	// reading what is in them, and tells which have a name of the set.
	Spaces(ctx context.Context, kind Kind, from string, names Names, limit int) ([]Space, error)
	// LastName is the greatest name in a namespace.
	LastName(ctx context.Context, kind Kind, namespace string) (string, error)
}

// Postings reads the indexes of labels and words. It is asked for all terms of a
// query at once, because a database that can join their lists as it reads them
// steps over most of the long ones. What it gives is looked at again.
type Postings interface {
	// Having tells which of the kinds may have a row with all of the terms.
	Having(ctx context.Context, kinds []Kind, terms []Term) (map[int64]bool, error)
	// Few calls each with the rows of the kind that may have all of the terms, in any
	// order, if they are at most so many; one may come twice. Else it reports false,
	// and may have called each.
	Few(ctx context.Context, kind Kind, terms []Term, most int, each func(*Found)) (bool, error)
}

// Range is a part of a kind. With InNamespace it is in one namespace, with names of
// a set; else it is everything behind a place, or everything.
type Range struct {
	InNamespace bool
	Namespace   string
	Names       Names

	Behind *Place
}

// Names is a set of names: those in a list (sorted, not empty), or from one text
// up to another (empty: without end).
type Names struct {
	In        []string
	From, End string
}

// Place is an object in a kind.
type Place struct{ Namespace, Name string }

// Space is a namespace of a kind, and whether it has a name that is asked for.
type Space struct {
	Namespace string
	Has       bool
}

// Term is a label with any of some values, or a word.
type Term struct {
	Word   bool
	Hashes []int64
}

// Found is a row of a walk, without its body.
type Found struct {
	Row    synchronizer.Row
	ID     int64
	Size   int64 // bytes of its body
	Labels index.Labels
	Words  index.Words // see Query.Words
}
