#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/test.sh [PACKAGE...]
#
# Runs every test, those against a real API server included. Installs or builds
# what is missing. Says which tests were skipped and why; with CI=true a skipped
# test is a failure. About a quarter of an hour on two cores, half an hour on a new machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset KUBECONFIG # no test may meet a cluster of whoever runs it
. scripts/session.sh
require_go
open_session
logs=$work/logs
mkdir "$logs"
[ $# -gt 0 ] || set -- ./...
# The package that takes a third of the time, most of it waiting, starts first.
[ "$*" != ./... ] || set -- ./test/scenario ./...
began=$SECONDS

step() { printf '\n== %s (%d s)\n' "$1" "$((SECONDS - began))"; }

# require PROGRAM PURPOSE PACKAGE... installs Debian packages if a program lacks.
require() {
	local program=$1 purpose=$2
	shift 2
	command -v "$program" >/dev/null || install "$program" "$purpose" "$@"
}

install() {
	local program=$1 purpose=$2
	shift 2
	echo "$program is missing ($purpose)"
	if ! command -v apt-get >/dev/null; then
		echo "install it with this system's package manager; on Debian it is in: $*" >&2
		exit 1
	fi
	if [ "$(id -u)" -ne 0 ]; then
		echo "type: sudo apt-get install -y $*" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	run apt-get update -q >"$logs/apt.log" 2>&1 || fail 'apt-get update failed.' "$logs/apt.log"
	run apt-get install -q -y --no-install-recommends "$@" >"$logs/apt.log" 2>&1 || fail "apt-get install $* failed." "$logs/apt.log"
}

step 'tools'
require git 'finds the files to check' git
require gcc 'the race detector needs a C compiler' gcc libc6-dev
require java 'Kafka and Pulsar run on Java 17 or newer' openjdk-17-jre-headless
require mvn 'fetches Kafka and Pulsar' maven
require ip 'a test pulls the cable between two machines' iproute2
# Debian keeps it out of the PATH, one folder per version.
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || require initdb 'PostgreSQL' postgresql
go version

step 'Kubernetes API server for tests'
build_kubernetes
echo "$kubernetes"

step 'brokers for tests'
for broker in kafka pulsar nats; do
	run "scripts/$broker.sh" fetch >"$logs/$broker.log" 2>&1 || fail "$broker could not be fetched." "$logs/$broker.log"
	tail -n 1 "$logs/$broker.log"
done

step 'gofmt'
files=$(git ls-files -co --exclude-standard -- '*.go' | while read -r file; do [ ! -e "$file" ] || echo "$file"; done)
unformatted=$(tr '\n' '\0' <<<"$files" | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	printf 'not formatted (type: make format):\n%s\n' "$unformatted" >&2
	exit 1
fi

step 'go vet'
run go vet "$@" || fail 'go vet has findings.'

step 'go test'
# Where results count, none of an earlier run do.
fresh=()
[ "${CI:-}" != true ] || fresh=(-count=1)
log=$work/test.log
status=0
# Of a package that passed only the closing line is shown, of another everything.
run bash -c 'set -o pipefail; log=$1; shift; go test "$@" 2>&1 | tee "$log" | awk -f scripts/test-summary.awk' - \
	"$log" -race -v -p 2 -timeout 20m ${fresh[@]+"${fresh[@]}"} "$@" || status=$?

skipped=$(awk -v list=skipped -f scripts/test-summary.awk "$log")
passed=$(grep -c '^ *--- PASS' "$log" || true)
failed=$(grep -c '^ *--- FAIL' "$log" || true)
step 'result'
if [ -n "$skipped" ]; then
	printf 'skipped:\n%s\n' "$skipped"
	if [ "${CI:-}" = true ]; then
		echo 'CI=true: a skipped test is a failure' >&2
		status=1
	fi
fi
if [ "$status" -ne 0 ]; then
	# A package that does not build or crashes has no failed test.
	[ "$failed" -gt 0 ] || failed=1
fi
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$(grep -c . <<<"$skipped" || true)"
exit "$status"
