#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/bench.sh [FLAG...]
#
# Measures on this machine, against a real API server that it starts; FLAGs go
# to each bench command. Prints results only: docs/benchmarks.md is written by hand
# from a run on an idle machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset KUBECONFIG
. scripts/session.sh
require_go
open_session
logs=$work/logs
mkdir "$logs"

build_kubernetes
build_synchronizer
start_kubernetes "$work/kubernetes"

for figure in first-sync latency; do
	echo "== bench $figure"
	run bin/synchronizer bench "$figure" --kubeconfig "$kubeconfig" "$@" ||
		fail "bench $figure failed; the reason stands above."
done
