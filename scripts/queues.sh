#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/queues.sh [BROKER...]
#
# Runs the contract suite of the queues on real brokers, which the tests start
# and end themselves, and writes docs/queue-results.md. BROKERs are embedded, nats,
# kafka and pulsar; without any it is all of them. About ten minutes on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/session.sh

[ $# -gt 0 ] || set -- embedded nats kafka pulsar
for broker; do
	case $broker in
	embedded | nats | kafka | pulsar) ;;
	*)
		sed -n '/^# usage/,/^set /{/^#/s/^# \{0,1\}//p;}' "$0" >&2
		exit 2
		;;
	esac
done
require_go
open_session
logs=$work/logs
mkdir "$logs"
page=docs/queue-results.md
events=$work/events.json
status=0

for broker; do
	package=./internal/queue/$broker
	tests='^TestContract'
	case $broker in
	embedded) package=./internal/queue/nats tests='^TestContract$' ;;
	nats) tests='^TestContractOverTCP$' ;;
	esac
	echo "== $broker"
	run go test -json -count=1 -timeout 20m -run "$tests" "$package" >"$work/$broker.json" 2>"$logs/$broker.log" || status=$?
	# What does not build prints lines that are no events.
	cat "$logs/$broker.log" >&2
	cat "$work/$broker.json" >>"$events"
done

run go run ./internal/queue/queuetest/results "$events" >"$work/page.md" || status=$?
[ -s "$work/page.md" ] || fail 'The page could not be made; the reason stands above.'
cp "$work/page.md" "$page"
echo "wrote $page"
exit "$status"
