#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/bench.sh [FLAG...]
#
# Measures on this machine: start and idle memory, then first sync and latency
# against generated objects, then first sync against a real API server that it
# starts. FLAGs go to first-sync and latency. Prints results only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset KUBECONFIG
. scripts/session.sh
require_go
open_session
logs=$work/logs
mkdir "$logs"

bench() {
	echo
	echo "== bench $*"
	run bin/synchronizer bench "$@" || fail "bench $1 failed; the reason stands above."
}

build_synchronizer
bench up
bench first-sync "$@"
bench latency "$@"

# The same against a real API server, which takes its share of the same cores.
build_kubernetes
start_kubernetes "$work/kubernetes"
bench first-sync --kubeconfig "$kubeconfig" "$@"
