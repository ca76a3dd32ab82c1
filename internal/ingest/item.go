// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/queue"
	"synchronizer/internal/rawjson"
	"synchronizer/internal/store/index"
)

// result says what became of one item. Results are counted after the commit.
type result string

const (
	resultNone      result = "ignored"
	resultStored    result = "stored"
	resultDeleted   result = "deleted"
	resultConfirmed result = "confirmed" // the row was right
	resultAsked     result = "asked"     // the body is missing: GetObject
	resultDuplicate result = "duplicate" // the same statement again
	resultStale     result = "stale"     // the row is newer
	resultLate      result = "late"      // of an object that was deleted and forgotten since
	resultPatch     result = "patch_not_applicable"
	resultNoted     result = "noted"  // about a connection, or a sentinel
	resultListed    result = "listed" // a reconciliation was asked for
	resultFault     result = "dead_letter"
)

// item is one record on its way through a batch.
type item struct {
	record *synchronizer.Record
	msg    synchronizer.Message
	// uid and resourceVersion are those of the body (Put).
	uid, resourceVersion string
	terms                *synchronizer.Terms
	// place is set if no server has stamped the record: what the names of the sources
	// begin with that its partition of the broker has been, see unstamped.
	place string

	result result
	// fault is set when the record can never be stored.
	fault error
	// left names parts of the record that could not be read, beside the rest.
	left []error

	// refusal is what the database said to it alone, in the attempt just made;
	// attempts counts them, and the next one is to be made then.
	refusal  error
	attempts int
	again    time.Time
	// notCarried says why only its existence is to be stored.
	notCarried string

	delivery *delivery
	bytes    int
}

// read decodes a record and everything that needs its body, outside of the
// transaction. It never fails: what cannot be read has a fault.
func read(r *synchronizer.Record) item {
	it := item{record: r}
	m, err := queue.Decode(r)
	if partly, ok := errors.AsType[*queue.PartialError](err); ok {
		it.left, err = partly.Left, nil
	}
	if err != nil {
		it.fail(fmt.Errorf("decoding record: %w", err))
		return it
	}
	it.msg = m
	if m.Source == "" || (m.Seq == 0 && m.Event.AboutObject()) {
		it.unstamped(r)
	}
	// No database has room in an index for more: one record after the other would have
	// to be tried and refused, and everybody's would wait.
	k := &m.Kind
	n := max(len(m.Account)+len(m.Cluster), len(m.Source), len(k.Group)+len(k.Version)+len(k.Resource), len(m.Namespace)+len(m.Name))
	if n > mostName {
		it.fail(fmt.Errorf("%w: cluster, source, kind or name has %d bytes, and %d are the most", synchronizer.ErrInvalid, n, mostName))
		return it
	}
	if m.Event != synchronizer.EventPut {
		return it
	}
	meta, images, err := rawjson.MetadataAndImages(m.Body)
	if err != nil {
		it.fail(fmt.Errorf("reading object: %w", err))
		return it
	}
	it.uid, it.resourceVersion = meta.UID, meta.ResourceVersion
	key := m.Key()
	it.terms = index.OfObject(&key, &meta, images).Terms() // a quarter of SQLite's transaction, if it had to
	if m.Checksum == "" {
		// Of a number that no float64 holds there is none: the object is stored without.
		it.msg.Checksum, _ = checksum.ObjectV1(m.Body)
	}
	return it
}

// unstamped gives a record of a server that stamps nothing the broker's order. Its
// partition is one source from one ServerConnected to the next, named by the position
// of that: so what is said after it is newer than what another server has stamped
// before, and than the deletion of the cluster.
func (it *item) unstamped(r *synchronizer.Record) {
	it.place = "partition:" + r.Partition + "@"
	it.msg.Stamp = synchronizer.Stamp{Source: fmt.Sprintf("%s%020d", it.place, r.Position), Seq: r.Position}
}

// source is who said it.
func (it *item) source() synchronizer.ClusterSource {
	s := synchronizer.ClusterSource{ClusterID: it.msg.ClusterID, Source: it.msg.Source}
	if it.msg.Event != synchronizer.EventServerConnected {
		s.From = it.place
	}
	return s
}

func (it *item) kind() synchronizer.ClusterKind {
	return synchronizer.ClusterKind{ClusterID: it.msg.ClusterID, Kind: it.msg.Kind}
}

func (it *item) fail(err error) {
	it.fault, it.result = err, resultFault
}

// name says which object or record it is, for a log line.
func (it *item) name() string {
	if it.msg.Event.AboutObject() {
		return short(it.msg.Event.String() + " " + it.msg.ClusterID.String() + " " + it.msg.Kind.String() + " " + it.msg.Namespace + "/" + it.msg.Name)
	}
	r := it.record
	return short(fmt.Sprintf("%s %s %s/%s/%s %s/%s", r.Property("event"), r.Key,
		r.Property("group"), r.Property("version"), r.Property("resource"), r.Property("namespace"), r.Property("name")))
}

// mostNamed is how much of a name is written to a log.
const mostNamed = 512

func short(name string) string {
	if len(name) > mostNamed {
		return strings.ToValidUTF8(name[:mostNamed], "") + "…"
	}
	return name
}

// dropReason is the reason under which a fault is counted.
func (it *item) dropReason() synchronizer.DropReason {
	if errors.Is(it.fault, queue.ErrForeign) {
		return synchronizer.DropForeign
	}
	return synchronizer.DropDeadLetter
}
