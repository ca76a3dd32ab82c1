#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/bench.sh [FLAG...]
#
# Measures on this machine and writes docs/benchmarks.md: start and idle memory,
# then first sync, latency, one object that changes all the time, a cluster in
# which nothing happens and a reconciliation, against generated objects, then all of
# them but the last against a real API server that it starts, which takes its share
# of the same cores, and what needs one: the HTTP endpoint and writing into the
# cluster. Last come the queues and the relay, next to the brokers' own libraries, which
# need Java 17 and Maven, or Docker, a server with 10,000 clients, and the ingester into
# both databases, which needs PostgreSQL. FLAGs go to every first sync. All of it is to take less than 35 minutes on
# an idle machine with two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset KUBECONFIG
. scripts/session.sh
require_go
open_session
logs=$work/logs
mkdir "$logs"

SYNCHRONIZER_COMMIT=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
export SYNCHRONIZER_COMMIT

bench() {
	echo
	echo "== bench $*"
	run bin/synchronizer bench "$@" --document docs/benchmarks.md || fail "bench $1 failed; the reason stands above."
}

build_synchronizer
run go build -buildvcs=false -o bin/client ./cmd/client || fail 'bin/client could not be built; the reason stands above.'

bench up --idle 5s
bench first-sync --client bin/client "$@"
bench first-sync --client bin/client --objects 100000 --runs 1 --strategy copy "$@"
bench latency --client bin/client --rate 10
bench latency --client bin/client --rate 1000
bench hot-object --client bin/client
bench idle --client bin/client --duration 40s --settle 5s
bench reconcile --client bin/client

build_kubernetes
start_kubernetes "$work/kubernetes"
kubernetes_group=$pid
real=(--client bin/client --kubeconfig "$kubeconfig")
# What the API server answered for such objects, replayed.
echo
echo "== bench record"
run bin/synchronizer bench record "$work/recording" --kubeconfig "$kubeconfig" --objects 10000 || fail 'bench record failed; the reason stands above.'
bench first-sync --client bin/client --recording "$work/recording" "$@"
bench latency --client bin/client --recording "$work/recording" --rate 1000
bench first-sync "${real[@]}" --objects 5000 "$@"
bench latency "${real[@]}" --rate 10
bench hot-object "${real[@]}"
bench idle "${real[@]}" --objects 200 --duration 40s --settle 5s
bench first-sync "${real[@]}" --objects 20000 --runs 1 --strategy copy "$@"
bench endpoint "${real[@]}"
bench apply "${real[@]}"

# The API server would take its share of the cores.
end_group "$kubernetes_group"
bench queue
bench relay
bench fleet
bench ingest
