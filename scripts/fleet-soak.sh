#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/fleet-soak.sh [SEEDS [DURATION]]
#
# Treats a server badly (see TestFleetSoak) for each of the seeds, such as 1-3, so
# long per seed, and appends figures and machine facts to docs/results.md. A seed
# that failed can be run again alone: FLEET_SEEDS=2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset KUBECONFIG # no test may meet a cluster of whoever runs it
. scripts/session.sh
. scripts/results.sh
seeds=${1:-1}
duration=${2:-10m}
require_go
open_session
build_kubernetes # the package of the test starts it

begin_result 'A fleet that behaves badly' <<'TEXT'
A server with the embedded queue, and clients that connect, send up to 40 messages and go, again and again:
with FIN, with RST, replaced by another connection of the same cluster, after a black hole that they left for
another path, or without reading a flood of commands. Behind the queue a ledger holds what came of every
connection against what it sent: in order, without a gap, and all of it after a FIN. In the end the gauge was
the number of clients. Goroutines and heap are those of server, clients and ledger together, twice while all
clients were idle: before the run, behind 20 s of the same, and after it.
`make fleet-soak FLEET_SEEDS=2 FLEET_DURATION=10m` runs one seed again.

| seed | duration | clients | connections | FIN | RST | replaced | black holes | slow readers | messages sent | came | commands read | commands dropped for slow readers | came twice | goroutines | live heap | lost |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
TEXT
result_of TestFleetSoak FLEET_SEEDS="$seeds" FLEET_DURATION="$duration" FLEET_RESULTS="$results"
