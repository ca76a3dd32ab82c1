// SPDX-License-Identifier: Apache-2.0

package queuetest

import "testing"

// scenario is one row of docs/queue-results.md.
type scenario struct {
	name string
	what string // for people
	// lacks is why a broker has no such thing, or "".
	lacks func(Factory) string
	run   func(*testing.T, *suite)
}

var scenarios = []scenario{
	{"OrderPerKey", "order per key", every, testOrderPerKey},
	{"OrderAcrossCalls", "order across calls of Publish", every, testOrderAcrossCalls},
	{"ManyKeysAtOnce", "100 keys × 1,000 records at once", every, testManyKeysAtOnce},
	{"AnyRecordSurvives", "any text in key and properties, any bytes in the payload", every, testAnyRecordSurvives},
	{"RecordedRecords", "every record of the system in the field, field by field", every, testRecordedRecords},
	{"LargeRecord", "20 MiB record", every, testLargeRecord},
	{"LargeRecordInParts", "20 MiB record through a limit of about 1 MiB", splits, testLargeInParts},
	{"DuplicateAndMissingParts", "duplicate and missing parts of large records", chunked, testParts},
	{"B018OverLimitAmongSmall", "10 KiB, 3 MiB, 10 KiB, 1 MiB less 200 bytes (B018)", every, testOverLimitAmongSmall},
	{"B049MorePartsThanFit", "1.5 MiB in parts of 64 KiB, then a small one (B049)", chunked, testMoreParts},
	{"TooLargeFailsAlone", "a record above every limit fails alone", limited, testTooLarge},
	{"B009SameIDs", "different records with one message id (B009)", every, testSameIDs},
	{"NothingToPublish", "an empty call of Publish", every, testNothing},
	{"DirectionsAreApart", "directions are apart", every, testDirections},
	{"TailFanOut", "every server sees every record", every, testTailFanOut},
	{"TailSeesOnlyWhatIsNew", "a server sees what is published from the moment on that it is ready", every, testTailNew},
	{"B024AnotherServerRestarts", "a server sees all while another restarts (B024)", every, testAnotherRestarts},
	{"B024NothingIsLeftBehind", "20 restarts of a server leave nothing on the broker (B024)", asked, testLeftovers},
	{"SlowTail", "a slow server holds up nobody", every, testSlowTail},
	{"TailEndsWithContext", "waiting of a server ends with its context", every, testTailContext},
	{"AcknowledgedOnce", "what is acknowledged does not come again", every, testAcknowledgedOnce},
	{"UnacknowledgedComesAgain", "what is not acknowledged comes again", every, testComesAgain},
	{"AckCoversEarlierBatches", "an acknowledgement covers the batches before", every, testAckCovers},
	{"LimitsOfNext", "limits of a batch", every, testLimits},
	{"NextWithoutLinger", "a batch does not wait to be full", every, testNoLinger},
	{"ConsumerRejoins", "a consumer leaves and joins again", every, testRejoin},
	{"GroupMembers", "a group shares the work by key", every, testMembers},
	{"ThirdConsumerJoins", "a third consumer joins: all get work, order per key, nothing lost", members, testThirdJoins},
	{"ConsumerKilledInMidBatch", "a consumer ends in mid-batch", every, testConsumerKilled},
	{"GroupsAreApart", "groups are apart", every, testGroups},
	{"ConsumeEndsWithContext", "waiting of a consumer ends with its context", every, testConsumeContext},
	{"SlowConsumer", "a slow consumer needs bounded memory", bounded, testSlowConsumer},
	{"AcknowledgedAfterCommit", "the ingester acknowledges after the commit", every, testAfterCommit},
	{"PoisonAndOutage", "poison goes to the dead letters, nothing in ten minutes without database", every, testPoisonAndOutage},
	{"BrokerStopped", "broker stopped and started in mid-traffic", disturbed, testStopped},
	{"BrokerKilled", "broker killed (SIGKILL) and started in mid-traffic", disturbed, testKilled},
	{"BrokerAwayIsSaid", "says that the broker is away, and that it is back", disturbed, testReachable},
	{"BrokerAway", "broker away at the start", absent, testAway},
	{"MissingTopic", "a topic that must exist does not", required, testMissingTopic},
	{"Ways", "way in", ways, testWays},
	{"WrongCredentials", "wrong credential", ways, testWrong},
	{"CloseWithPendingRecords", "close with pending records", every, testClosePending},
	{"CloseEndsBlockedCalls", "close ends calls that wait", every, testCloseBlocked},
	{"ClosedQueue", "calls on a closed queue", every, testClosed},
}

const inProcess = "the broker is in the process and ends with it"

func every(Factory) string { return "" }

func when(has bool, reason string) string {
	if has {
		return ""
	}
	return reason
}

func chunked(f Factory) string {
	return when(f.Chunks != nil, "the broker needs no layer of ours for it: see the row of 20 MiB")
}

func splits(f Factory) string {
	return when(f.Chunks != nil || f.Limited != nil, "the broker carries it whole: see the row of 20 MiB")
}

func limited(f Factory) string {
	return when(f.MaxPayload > 0, "there is no limit that a test can reach")
}

func members(f Factory) string {
	return when(!f.OneMember, "one process at a time, so a group has one member")
}

func bounded(f Factory) string   { return when(!f.HoldsAll, "keeps all in memory") }
func asked(f Factory) string     { return when(f.Leftovers != nil, inProcess) }
func disturbed(f Factory) string { return when(f.Broker != nil, inProcess) }
func absent(f Factory) string    { return when(f.Absent != nil, inProcess) }
func ways(f Factory) string {
	return when(len(f.Ways) > 0, "the broker is in the process: there is no way in")
}

func required(f Factory) string {
	return when(f.MissingTopic != nil, "what is missing is made at the start")
}
