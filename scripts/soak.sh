#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/soak.sh [SEEDS [DURATION]]
#
# Runs the long run (a writer, cuts and compactions; see TestLongRun) for each of
# the seeds, such as 1-3, so long per seed, and appends figures and machine facts
# to docs/results.md. A seed that failed can be run again alone: SEEDS=2.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset KUBECONFIG # no test may meet a cluster of whoever runs it
. scripts/session.sh
. scripts/results.sh
seeds=${1:-1-3}
duration=${2:-3m}
require_go
open_session
build_kubernetes

begin_result 'Soak' <<'TEXT'
50 writes per second to three kinds (ConfigMap, Deployment, a custom resource) of 100 names; connections
to the API server cut every 2 s, etcd compacted every 10 s while the client is kept away. Goroutines and
heap are those of client, backend and test together.

| seed | duration | writes | cuts | compactions | watches gone (410) | lists | watches | GETs | objects at the end | goroutines | heap | store and cluster |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
TEXT
result_of TestLongRun SOAK_SEEDS="$seeds" SOAK_DURATION="$duration" SOAK_RESULTS="$results"
