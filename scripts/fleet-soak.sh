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
seeds=${1:-1}
duration=${2:-10m}
require_go
open_session
build_kubernetes # the package of the test starts it

results=$PWD/docs/results.md
[ -e "$results" ] || printf '# Results of long runs\n' >"$results"
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
git diff --quiet HEAD -- '*.go' 2>/dev/null || commit="$commit with changes"
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
memory=$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo 2>/dev/null || true)
{
	echo
	echo "## A fleet that behaves badly, $(date -u '+%Y-%m-%d %H:%M') UTC"
	echo
	echo "${cpu:-unknown CPU}, $(getconf _NPROCESSORS_ONLN) cores, ${memory:-unknown memory}, kernel $(uname -r), $(go env GOVERSION GOOS GOARCH | paste -sd' '), commit $commit, load $(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo unknown) before"
	echo
	echo 'A server with the embedded queue, and clients that connect, send up to 40 messages and go, again and again:'
	echo 'with FIN, with RST, replaced by another connection of the same cluster, after a black hole that they left for'
	echo 'another path, or without reading a flood of commands. Behind the queue a ledger holds what came of every'
	echo 'connection against what it sent: in order, without a gap, and all of it after a FIN. In the end the gauge was'
	echo 'the number of clients. Goroutines and heap are those of server, clients and ledger together, twice while all'
	echo 'clients were idle: before the run, behind 20 s of the same, and after it.'
	echo '`make fleet-soak FLEET_SEEDS=2 FLEET_DURATION=10m` runs one seed again.'
	echo
	echo '| seed | duration | clients | connections | FIN | RST | replaced | black holes | slow readers | messages sent | came | commands read | commands dropped for slow readers | came twice | goroutines | live heap | lost |'
	echo '|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|'
} >>"$results"
status=0
CI=true FLEET_SEEDS=$seeds FLEET_DURATION=$duration FLEET_RESULTS=$results \
	run go test -count=1 -timeout 0 -run '^TestFleetSoak$' -v ./test/scenario || status=$?
if [ "$status" -ne 0 ]; then
	printf '\n**Failed**: not every seed has a row; the log of the run says which and why.\n' >>"$results"
	fail 'The run failed; the reason and the seed stand above.'
fi
echo "appended to ${results#"$PWD"/}"
