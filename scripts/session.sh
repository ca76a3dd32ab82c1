# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by scripts that start programs and must end all of them, whatever
# happens: Ctrl-C, SIGTERM, a failure, or the death of the script itself.
#
#   open_session         first; makes the temporary folder $work
#   run COMMAND...       runs a command to its end
#   start COMMAND...     starts a program; its process id is $pid
#   fail TEXT [LOG]      prints the end of the log, then TEXT, and exits
#
# Every program gets a process group of its own, so that the Ctrl-C of a
# terminal reaches the script only, which then ends the groups in order.

started=()
pid=
logs=

open_session() {
	work=$(mktemp -d "${TMPDIR:-/tmp}/synchronizer.XXXXXX")
	trap end_session EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	# The guard reads from a pipe that only this script holds open for writing. The
	# kernel closes it when the script dies, even of SIGKILL.
	mkfifo "$work/alive"
	exec 3<>"$work/alive"
	: >"$work/started"
	set -m
	guard "$work" <"$work/alive" 3>&- &
	set +m
	guard_pid=$!
}

guard() {
	trap '' INT TERM HUP
	while read -r _; do :; done
	# The newest first: what uses a thing ends before the thing.
	local group
	sort -rn "$1/started" | while read -r group; do
		kill -TERM -- "-$group" 2>/dev/null || true
	done
	rm -rf "$1"
}

start() {
	set -m
	"$@" </dev/null 3>&- &
	set +m
	pid=$!
	started+=("$pid")
	note_started
}

run() {
	start "$@"
	local status=0
	wait "$pid" || status=$?
	unset "started[$((${#started[@]} - 1))]"
	note_started
	return "$status"
}

note_started() {
	printf '%s\n' ${started[@]+"${started[@]}"} >"$work/started"
}

running() { kill -0 "$1" 2>/dev/null; }

# pause waits without delaying a signal's trap.
pause() {
	sleep "$1" 3>&- &
	wait $! || true
}

# end_group asks a group to end, and ends it by force when it has not after 20 s.
end_group() {
	kill -TERM -- "-$1" 2>/dev/null || return 0
	local tries=200
	while kill -0 -- "-$1" 2>/dev/null; do
		tries=$((tries - 1))
		if [ "$tries" -eq 0 ]; then
			echo "process group $1 does not end; killing it" >&2
			kill -KILL -- "-$1" 2>/dev/null || true
		fi
		sleep 0.1
	done
}

end_session() {
	local status=$? i
	trap - EXIT
	trap '' HUP INT TERM
	for ((i = ${#started[@]} - 1; i >= 0; i--)); do
		end_group "${started[i]}"
	done
	kill -KILL "$guard_pid" 2>/dev/null || true
	wait "$guard_pid" 2>/dev/null || true
	rm -rf "$work"
	exit "$status"
}

fail() {
	if [ -s "${2:-}" ]; then
		printf -- '--- end of %s\n' "$2" >&2
		tail -n 20 "$2" >&2
		echo '---' >&2
	fi
	printf '%s\n' "$1" >&2
	exit 1
}

# require_go ends the script unless there is a Go that can build the checkout.
require_go() {
	local version
	if ! command -v go >/dev/null; then
		# shellcheck disable=SC2016 # the reader's shell expands it
		echo 'Go 1.26 or newer is needed: install it from https://go.dev/dl/ and type: export PATH=$PATH:/usr/local/go/bin' >&2
		exit 1
	fi
	# Go itself compares with go.mod, and fetches a newer Go where it may.
	if ! version=$(go env GOVERSION 2>&1); then
		printf '%s\nGo 1.26 or newer is needed: install it from https://go.dev/dl/ (go is %s)\n' "$version" "$(command -v go)" >&2
		exit 1
	fi
}

# build_kubernetes sets $kubernetes to the API server's program. It is built once
# and kept in the user's cache; that build says itself that it takes minutes.
build_kubernetes() {
	run go run ./test/kubetest/cmd/kubernetes-binary >"$work/kubernetes-path" ||
		fail 'The API server could not be built; the reason stands above.'
	kubernetes=$(cat "$work/kubernetes-path")
}

# start_kubernetes DIR starts an API server on a free port, with its log in $logs,
# and sets $kubeconfig.
# A folder that was used before goes on with its data.
start_kubernetes() {
	rm -f "$1/kubeconfig"
	start "$kubernetes" run --dir "$1" >"$logs/kubernetes.log" 2>&1
	kubeconfig=$1/kubeconfig
	await_file "$kubeconfig" "$pid" 180 'The API server did not start.' "$logs/kubernetes.log"
}

# await_file FILE PROCESS SECONDS TEXT LOG waits until the process has written the
# file; if it does not, it fails with text and log.
await_file() {
	local deadline=$((SECONDS + $3))
	until [ -s "$1" ]; do
		running "$2" || fail "$4" "$5"
		[ "$SECONDS" -lt "$deadline" ] || fail "$4 (waited $3 s)" "$5"
		pause 0.1
	done
}

# build_synchronizer builds bin/synchronizer.
build_synchronizer() {
	# No version stamp: git refuses it in a checkout that another user owns.
	run go build -buildvcs=false -o bin/synchronizer ./cmd/synchronizer ||
		fail 'bin/synchronizer could not be built; the reason stands above.'
}
