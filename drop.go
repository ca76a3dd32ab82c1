// SPDX-License-Identifier: Apache-2.0

package synchronizer

// DropReason says why something was not carried. Every drop is counted under
// its reason in synchronizer_drops_total and named in a log line; the page
// docs/drops.md is generated from DropReasons.
type DropReason string

// The reasons.
const (
	DropMalformed      DropReason = "malformed"
	DropUnknownEvent   DropReason = "unknown_event"
	DropTooDeep        DropReason = "too_deep"
	DropTooLarge       DropReason = "too_large"
	DropNotConfigured  DropReason = "kind_not_configured"
	DropUnsupported    DropReason = "unsupported"
	DropUnreadable     DropReason = "unreadable_object"
	DropBacklog        DropReason = "client_backlog_full"
	DropDisconnected   DropReason = "client_disconnected"
	DropUnheard        DropReason = "client_unheard"
	DropStale          DropReason = "stale"
	DropLate           DropReason = "late"
	DropForeign        DropReason = "identity_mismatch"
	DropDeadLetter     DropReason = "dead_letter"
	DropPatchBase      DropReason = "patch_not_applicable"
	DropNotAMessage    DropReason = "text_frame"
	DropSuperfluousGet DropReason = "object_gone"
	DropRefused        DropReason = "queue_refused"
	DropOutOfScope     DropReason = "out_of_scope"
	DropDuplicate      DropReason = "duplicate"
	DropChunks         DropReason = "chunks_missing"
	DropReplayExpired  DropReason = "replay_expired"
	DropReplayCapacity DropReason = "replay_capacity"
	DropReplayTooLarge DropReason = "replay_oversized"
	DropAlertsSkipped  DropReason = "alerts_skipped"
	DropNoFeature      DropReason = "feature_missing"
)

// DropReasons is the one table of reasons, with what each means and what heals
// it.
var DropReasons = []struct {
	Reason DropReason
	Where  string
	Means  string
}{
	{DropMalformed, "link, ingester", "a frame or record that is not what the protocol says: not JSON, wrong types, no kind. The sender has a fault; nothing else is affected"},
	{DropUnknownEvent, "link, ingester", "an event that this version does not know; ignored, as the protocol asks"},
	{DropTooDeep, "link, server", "a message whose depth is above 8: the chain of answers ends here"},
	{DropTooLarge, "link, server", "a message above the configured maximum; the connection stays up. Raise inCluster.maxObjectBytes, on the server MAX_OBJECT_SIZE if it is set, or exclude the object"},
	{DropNotConfigured, "client", "the backend spoke of a kind that inCluster.resources does not list"},
	{DropUnsupported, "client, server, ingester", "an event that this version does not act on"},
	{DropUnreadable, "client", "an object whose body could not be read or transformed; it counts as present"},
	{DropBacklog, "server", "the client did not read and its backlog was full; the next reconciliation repairs it"},
	{DropDisconnected, "server, client", "the other side left before the message was written; for a report of the HTTP endpoint: the process ended first"},
	{DropUnheard, "server", "written to a connection that ended before anything more was heard of its client: it may not have read it. A link v1 has no acknowledgement, so nobody knows: what a client says is taken as a sign that it reads, which it does not over a path that is dead in one direction; with replay on, the server to which the client connects next sends what it has kept"},
	{DropStale, "ingester", "older than what the store holds; nothing is lost"},
	{DropLate, "ingester", "about an object that was deleted longer ago than `ingester.tombstoneTTL`, or whose cluster was deleted, by a connection that spoke before that; a reconciliation repairs it where it exists after all"},
	{DropForeign, "ingester", "account or cluster of the payload disagree with the record's properties"},
	{DropDeadLetter, "ingester", "a record that can never be stored; it is kept on the dead-letter topic"},
	{DropPatchBase, "ingester", "a patch that does not fit what is stored; the whole object was asked for"},
	{DropNotAMessage, "link", "a text frame; only binary frames carry messages"},
	{DropSuperfluousGet, "client", "the backend asked for an object that no longer exists or is not carried; a deletion is reported on its own"},
	{DropRefused, "server", "the queue refused what a client had sent for 20 s; the link was closed, and the client says again after the reconnect what it said in the last 100 s"},
	{DropDuplicate, "client", "a command that this process has carried out already (deduplication)"},
	{DropChunks, "server, ingester", "a record above the broker's limit of which not all parts were there in time, or for which there was no room; its sender was not told that it was accepted, or the next reconciliation repairs it"},
	{DropReplayExpired, "server", "kept for a client that did not connect to this server within backend.replay.ttlSeconds. Servers keep what another has delivered, too, so with several of them this is no sign of a loss"},
	{DropReplayCapacity, "server", "kept for a client that is not connected, and had to make room: a limit of backend.replay was reached. Raise maxMessages, maxMessagesPerClient or maxBytes"},
	{DropReplayTooLarge, "server", "for a client that is not connected, and larger than backend.replay.maxBytes alone"},
	{DropAlertsSkipped, "server", "a runtime alert of an account that backend.skipAlertsFrom lists: as configured"},
	{DropNoFeature, "server", "a runtime alert of an account that does not have the feature backend.featuresProvider.featureFlagName, as the authentication server said at the last refresh"},
	{DropOutOfScope, "client", "an object that still exists but left the selector of its kind; it is kept in the store and not updated"},
}

// DropFunc counts one drop and names it. What is for people ("apps/v1/deployments
// default/web") and never holds a body or a secret. It must not block.
type DropFunc func(reason DropReason, what string)
