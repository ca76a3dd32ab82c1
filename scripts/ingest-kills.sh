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
seeds=${1:-1-3}
kills=${2:-50}
require_go
open_session
build_kubernetes

results=$PWD/docs/results.md
[ -e "$results" ] || printf '# Results of long runs\n' >"$results"
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
git diff --quiet HEAD -- '*.go' 2>/dev/null || commit="$commit with changes"
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
memory=$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo 2>/dev/null || true)
{
	echo
	echo "## Ingesters killed, $(date -u '+%Y-%m-%d %H:%M') UTC"
	echo
	echo "${cpu:-unknown CPU}, $(getconf _NPROCESSORS_ONLN) cores, ${memory:-unknown memory}, kernel $(uname -r), $(go env GOVERSION GOOS GOARCH | paste -sd' '), commit $commit, load $(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo unknown) before"
	echo
	echo 'Two `synchronizer ingester` processes on NATS over TCP and PostgreSQL. A writer publishes up to 1,000'
	echo 'statements a second about 8 clusters of 40 names (whole objects, patches, checksums, deletions, new'
	echo 'connections) and keeps a ledger; meanwhile one of the two is killed (SIGKILL) after a random time of up to'
	echo '5 s, again and again, and started again at once. In the end the bodies in the store are compared with the'
	echo 'ledger byte for byte. `make kills SEEDS=2 KILLS=50` runs one seed again.'
	echo
	echo '| seed | kills | during | statements | questions answered | objects at the end | deleted | equal after | store and ledger |'
	echo '|---|---|---|---|---|---|---|---|---|'
} >>"$results"
status=0
CI=true INGEST_SEEDS=$seeds INGEST_KILLS=$kills INGEST_RESULTS=$results \
	run go test -count=1 -timeout 0 -run '^TestIngestersKilled$' -v ./test/scenario || status=$?
if [ "$status" -ne 0 ]; then
	printf '\n**Failed**: not every seed has a row; the log of the run says which and why.\n' >>"$results"
	fail 'The run failed; the reason and the seed stand above.'
fi
echo "appended to ${results#"$PWD"/}"
