// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lines makes the events of one suite.
type lines struct {
	t testing.TB
	b strings.Builder
}

func (l *lines) add(pkg, test, action, key, value string) {
	line, err := json.Marshal(event{
		Time: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Package: pkg, Test: test, Action: action, Key: key, Value: value, Output: value,
	})
	require.NoError(l.t, err)
	l.b.Write(append(line, '\n'))
}

func (l *lines) scenario(pkg, test, what, none, outcome string) {
	l.add(pkg, test, "run", "", "")
	l.add(pkg, test, "attr", "scenario", what)
	if none != "" {
		l.add(pkg, test, "attr", "none", none)
	}
	if outcome != "" {
		l.add(pkg, test, outcome, "", "")
	}
}

func TestPage(t *testing.T) {
	l := &lines{t: t}
	l.add("p/nats", "TestContract", "attr", "broker", "embedded")
	l.scenario("p/nats", "TestContract/Order", "order | per key", "", "pass")
	l.scenario("p/nats", "TestContract/Ways", "way in", "in the process", "pass")
	l.scenario("p/nats", "TestContract/WrongCredentials", "wrong credential", "in the process", "pass")
	l.scenario("p/nats", "TestContract/Last", "last", "", "pass")
	l.add("p/nats", "TestContract", "pass", "", "")
	l.add("p/kafka", "TestAll", "attr", "broker", "kafka")
	l.add("p/kafka", "TestAll", "attr", "version", "Kafka 1.2")
	l.scenario("p/kafka", "TestAll/Order", "order | per key", "", "")
	l.add("p/kafka", "TestAll/Order", "output", "", "gone\n")
	l.add("p/kafka", "TestAll/Order", "fail", "", "")
	l.scenario("p/kafka", "TestAll/Ways", "way in", "", "pass")
	l.scenario("p/kafka", "TestAll/Ways/plain", "way in: plain", "", "pass")
	l.scenario("p/kafka", "TestAll/Ways/TLS", "way in: TLS", "", "pass")
	l.scenario("p/kafka", "TestAll/WrongCredentials", "wrong credential", "", "pass")
	l.scenario("p/kafka", "TestAll/WrongCredentials/TLS", "wrong credential: TLS", "", "pass")
	l.scenario("p/kafka", "TestAll/Last", "last", "", "")
	l.add("p/pulsar", "TestAll", "attr", "broker", "pulsar")
	l.scenario("p/pulsar", "TestAll/Ways", "way in", "", "pass")
	l.scenario("p/pulsar", "TestAll/Ways/plain", "way in: plain", "", "pass")
	l.scenario("p/pulsar", "TestAll/Ways/token", "way in: token", "", "pass")
	l.scenario("p/pulsar", "TestAll/WrongCredentials", "wrong credential", "", "pass")
	l.scenario("p/pulsar", "TestAll/WrongCredentials/token", "wrong credential: token", "", "pass")

	r, err := read(strings.NewReader(l.b.String()))
	require.NoError(t, err)
	r.readVersion("require (\n\tgithub.com/nats-io/nats-server/v2 v2.3.4\n)")
	page := r.page()
	_, table, ok := strings.Cut(page, "Run on ")
	require.True(t, ok)
	require.Equal(t, `2026-02-03:

- embedded: nats-server 2.3.4 in the process
- nats: not run
- kafka: Kafka 1.2
- pulsar: version not known

| scenario | embedded | nats | kafka | pulsar |
|---|---|---|---|---|
| order \| per key | pass | not run | **fail** | not run |
| way in: plain | – in the process | not run | pass | pass |
| way in: TLS | – in the process | not run | pass | – not a way into this broker |
| way in: token | – in the process | not run | – not a way into this broker | pass |
| wrong credential: TLS | – in the process | not run | pass | – not a way into this broker |
| wrong credential: token | – in the process | not run | – not a way into this broker | pass |
| last | pass | not run | **did not end** | not run |
`, table)
	failures := r.failures()
	require.Contains(t, failures, "p/kafka TestAll/Order: fail\ngone\n")
	require.Contains(t, failures, "p/kafka TestAll/Last: \n")
	require.NotContains(t, failures, "embedded")
}

func TestNothingRan(t *testing.T) {
	r, err := read(strings.NewReader(`{"Action":"fail","Package":"p"}`))
	require.NoError(t, err)
	require.NotEmpty(t, r.failures())
	_, err = read(strings.NewReader("# p\nno JSON\n"))
	require.ErrorContains(t, err, "decoding")
}
