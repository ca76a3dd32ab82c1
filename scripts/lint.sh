#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/lint.sh [PACKAGE...]
#
# Checks formatting, runs the linters that tools/go.mod pins, and looks for what
# no linter knows of. Runs all of them before it fails. Changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -gt 0 ] || set -- ./...

tool=(go tool -modfile=tools/go.mod)
failed=0

# complain TEXT FINDINGS prints the findings, if there are any, under TEXT.
complain() {
	[ -n "$2" ] || return 0
	printf '%s\n  %s\n\n' "$1" "${2//$'\n'/$'\n'  }"
	failed=1
}

# search PATTERN FILE... prints the lines that match; none is no error.
search() { git grep --untracked -nE "$@" || true; }

complain 'not formatted (run make format):' "$("${tool[@]}" gofumpt -l .)"

"${tool[@]}" staticcheck "$@" || failed=1

complain 'file without its license in the first line:' \
	"$(git ls-files -co --exclude-standard -- '*.go' | while read -r file; do
		head -n 1 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0\|^// Code generated' || echo "$file"
	done)"
# A comment on the same line that gives the reason is an exemption from these two.
complain 'a test waits for a condition, never for a time:' "$(search 'time\.Sleep\([^/]*$' -- '*_test.go')"
complain 'use t.Context() in tests:' "$(search 'context\.(Background|TODO)\(\)[^/]*$' -- '*_test.go' ':!*main_test.go')"
complain 'say what was being done (a gerund), not that it failed:' \
	"$(search '(Errorf|errors\.New)\("(failed|unable|could not|cannot) ' -- '*.go')"
complain 'only main may end the process:' \
	"$(search 'os\.Exit\(|log\.Fatal' -- 'internal/*.go' '*.go' ':!cmd' ':!test' ':!tools' ':!*/gen/main.go' \
	':!*_test.go' ':!internal/*test/*')"

complain 'configuration/alerts.yaml is not PromQL:' "$(go run -C tools ./promql ../configuration/alerts.yaml 2>&1 || true)"

[ "$failed" -eq 0 ] && echo 'lint: no findings'
exit "$failed"
