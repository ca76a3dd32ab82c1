# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced, after session.sh, by scripts whose figures are appended to docs/results.md.
#
#   begin_result TITLE <TEXT   starts a section: title, machine, text, head of the table
#   result_of TEST NAME=VALUE...
#                              runs a test of test/scenario with these variables; it
#                              appends its rows to the file $results

results=$PWD/docs/results.md

begin_result() {
	local commit cpu memory
	[ -e "$results" ] || printf '# Results of long runs\n' >"$results"
	commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
	git diff --quiet HEAD -- '*.go' 2>/dev/null || commit="$commit with changes"
	cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1 || true)
	memory=$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo 2>/dev/null || true)
	{
		printf '\n## %s, %s UTC\n\n' "$1" "$(date -u '+%Y-%m-%d %H:%M')"
		echo "${cpu:-unknown CPU}, $(getconf _NPROCESSORS_ONLN) cores, ${memory:-unknown memory}, kernel $(uname -r), $(go env GOVERSION GOOS GOARCH | paste -sd' '), commit $commit, load $(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo unknown) before"
		echo
		cat
	} >>"$results"
}

result_of() {
	local test=$1 status=0
	shift
	run env CI=true "$@" go test -count=1 -timeout 0 -run "^$test\$" -v ./test/scenario || status=$?
	if [ "$status" -ne 0 ]; then
		printf '\n**Failed**: not every seed has a row; the log of the run says which and why.\n' >>"$results"
		fail 'The run failed; the reason and the seed stand above.'
	fi
	echo "appended to ${results#"$PWD"/}"
}
