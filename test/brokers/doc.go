// SPDX-License-Identifier: Apache-2.0

// Package brokers starts real brokers for tests: as processes of this machine, on
// free ports, with data in a temporary folder.
//
//	func TestMain(m *testing.M) { os.Exit(brokers.Main(m)) }
//
//	shared := brokers.SharedKafka(t)                       // one per test binary, left undisturbed
//	own := brokers.StartKafka(t, brokers.KafkaOptions{})   // to stop, kill and start again
//
// What a broker consists of is fetched once from its registry into the user's
// cache folder (SYNCHRONIZER_CACHE chooses another one), by the same functions
// that scripts/kafka.sh and the like use. A broker never outlives the test binary:
// it is ended with the test or by Main, and killed by the kernel if the binary
// dies before.
package brokers
