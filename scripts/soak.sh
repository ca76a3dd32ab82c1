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
seeds=${1:-1-3}
duration=${2:-3m}
require_go
open_session
build_kubernetes

results=$PWD/docs/results.md
[ -e "$results" ] || cat >"$results" <<'PAGE'
# Results of long runs

Appended by `make soak`: each section is one run, with the machine that it ran on. A seed decides
what the writer does; `make soak SEEDS=2 DURATION=3m` runs one again.
PAGE

commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
git diff --quiet HEAD -- '*.go' 2>/dev/null || commit="$commit with changes"
cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
memory=$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo 2>/dev/null || true)
{
	echo
	echo "## Soak, $(date -u '+%Y-%m-%d %H:%M') UTC"
	echo
	echo "${cpu:-unknown CPU}, $(getconf _NPROCESSORS_ONLN) cores, ${memory:-unknown memory}, kernel $(uname -r), $(go env GOVERSION GOOS GOARCH | paste -sd' '), commit $commit, load $(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo unknown) before"
	echo
	echo '50 writes per second to three kinds (ConfigMap, Deployment, a custom resource) of 100 names; connections'
	echo 'to the API server cut every 2 s, etcd compacted every 10 s while the client is kept away. Goroutines and'
	echo 'heap are those of client, backend and test together.'
	echo
	echo '| seed | duration | writes | cuts | compactions | watches gone (410) | lists | watches | GETs | objects at the end | goroutines | heap | store and cluster |'
	echo '|---|---|---|---|---|---|---|---|---|---|---|---|---|'
} >>"$results"
status=0
CI=true SOAK_SEEDS=$seeds SOAK_DURATION=$duration SOAK_RESULTS=$results \
	run go test -count=1 -timeout 0 -run '^TestLongRun$' -v ./test/scenario || status=$?
if [ "$status" -ne 0 ]; then
	printf '\n**Failed**: not every seed has a row; the log of the run says which and why.\n' >>"$results"
	fail 'The long run failed; the reason and the seed stand above.'
fi
echo "appended to ${results#"$PWD"/}"
