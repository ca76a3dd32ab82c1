#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/ingest-kills.sh [SEEDS [KILLS]]
#
# Kills ingesters under load (see TestIngestersKilled) so often for each of the
# seeds, such as 1-3, and appends figures and machine facts to docs/results.md. A
# seed that failed can be run again alone: SEEDS=2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset KUBECONFIG # no test may meet a cluster of whoever runs it
. scripts/session.sh
. scripts/results.sh
seeds=${1:-1-3}
kills=${2:-50}
require_go
open_session
build_kubernetes

begin_result 'Ingesters killed' <<'TEXT'
Two `synchronizer ingester` processes on NATS over TCP and PostgreSQL. A writer publishes up to 1,000
statements a second about 8 clusters of 40 names (whole objects, patches, checksums, deletions, new
connections) and keeps a ledger; meanwhile one of the two is killed (SIGKILL) after a random time of up to
5 s, again and again, and started again at once. In the end the bodies in the store are compared with the
ledger byte for byte. `make kills SEEDS=2 KILLS=50` runs one seed again.

| seed | kills | during | statements | questions answered | objects at the end | deleted | equal after | store and ledger |
|---|---|---|---|---|---|---|---|---|
TEXT
result_of TestIngestersKilled INGEST_SEEDS="$seeds" INGEST_KILLS="$kills" INGEST_RESULTS="$results"
