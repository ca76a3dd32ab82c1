// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"synchronizer"
	"synchronizer/internal/telemetry/traceparent"
)

// Names of properties. The first block is read by everyone in the field.
const (
	PropertyTimestamp       = "timestamp" // RFC 3339 with nanoseconds
	PropertyEvent           = "event"
	PropertyAccount         = "account"
	PropertyCluster         = "cluster"
	PropertyGroup           = "group"
	PropertyVersion         = "version"
	PropertyResource        = "resource"
	PropertyName            = "name"
	PropertyNamespace       = "namespace"
	PropertyResourceVersion = "resourceVersion" // the frame's number; the payload always holds 0
	PropertyProducerSource  = "x-producer-source"

	// Ours; a consumer that does not know them ignores them.
	PropertySource         = "x-source"           // Stamp.Source
	PropertySeq            = "x-seq"              // Stamp.Seq
	PropertyLink           = "x-link"             // "v1" or "v2"
	PropertyUID            = "x-uid"              // of the object
	PropertyObjectVersion  = "x-resource-version" // of the object, exact text
	PropertyEncoding       = "x-encoding"         // "compact", or absent
	PropertyChecksum       = "x-checksum"         // only with x-encoding: compact
	PropertyDepth          = "x-depth"            // only with x-encoding: compact
	PropertyMsgID          = "x-msg-id"           // only with x-encoding: compact
	PropertyTraceParent    = traceparent.Name     // of W3C Trace Context; only of what is in a trace
	encodingCompact        = "compact"
	producerServer         = "synchronizer-server"
	mostProperties         = 20
	mostPropertiesNoObject = 8
)

// ServerProducerKey is the message key by which servers in the field mark their
// records on Pulsar; older ones have no other mark.
const ServerProducerKey = "SynchronizerServerProducer"

// FromServer reports whether a server produced the record. A server ignores such
// records, so that it never reads its own; on a topic that both directions
// share, an ingester handles only these.
func FromServer(r *synchronizer.Record) bool {
	return r.Key == ServerProducerKey || r.Property(PropertyProducerSource) == producerServer
}

// properties is what Decode needs of a record's properties.
type properties struct {
	event, account, cluster            string
	group, version, resource           string
	name, namespace                    string
	resourceVersion                    string
	source, seq                        string
	encoding, checksum, depth, message string
	trace                              string
}

// readProperties passes once over the properties; names that are not known are
// ignored.
func readProperties(list []synchronizer.Property) properties {
	var p properties
	for i := range list {
		value := list[i].Value
		switch list[i].Name {
		case PropertyEvent:
			p.event = value
		case PropertyAccount:
			p.account = value
		case PropertyCluster:
			p.cluster = value
		case PropertyGroup:
			p.group = value
		case PropertyVersion:
			p.version = value
		case PropertyResource:
			p.resource = value
		case PropertyName:
			p.name = value
		case PropertyNamespace:
			p.namespace = value
		case PropertyResourceVersion:
			p.resourceVersion = value
		case PropertySource:
			p.source = value
		case PropertySeq:
			p.seq = value
		case PropertyEncoding:
			p.encoding = value
		case PropertyChecksum:
			p.checksum = value
		case PropertyDepth:
			p.depth = value
		case PropertyMsgID:
			p.message = value
		case PropertyTraceParent:
			p.trace = value
		}
	}
	return p
}
