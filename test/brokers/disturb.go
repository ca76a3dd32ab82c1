// SPDX-License-Identifier: Apache-2.0

package brokers

import "testing"

// DisturbKafka is SharedKafka for a test that stops or kills it, since starting one
// more takes longer than most tests. It runs again when the test has ended, also
// when it has failed in the middle. No other test may run at the same time.
func DisturbKafka(t testing.TB) *Kafka {
	t.Helper()
	k := SharedKafka(t)
	disturb(t, k)
	return k
}

// DisturbPulsar is SharedPulsar for a test that stops or kills it; see DisturbKafka.
func DisturbPulsar(t testing.TB) *Pulsar {
	t.Helper()
	p := SharedPulsar(t)
	disturb(t, p)
	return p
}

type disturbable interface {
	running() bool
	log() string
	Start(t testing.TB)
}

func disturb(t testing.TB, b disturbable) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("end of the broker's log:\n" + tail(b.log(), 30))
		}
		if !b.running() {
			b.Start(t)
		}
	})
}

func (k *Kafka) running() bool  { return k.process.running() }
func (p *Pulsar) running() bool { return p.process.running() }
