#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/fuzz.sh TIME [PACKAGE...]
#
# Runs every fuzz target, one after another, for TIME each (such as 30s). An
# input that fails is kept by Go in testdata/fuzz of its package: commit it with
# the fix, and it is a test from then on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:?usage: scripts/fuzz.sh TIME [PACKAGE...]}
shift
[ $# -gt 0 ] || set -- ./...

targets=0 failed=0
for package in $(go list "$@"); do
	# -list prints the names, then a closing line.
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "== $package $target"
		targets=$((targets + 1))
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" || failed=$((failed + 1))
	done
done
echo "$((targets - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
