# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts that start a broker: kafka.sh, pulsar.sh, nats.sh. A
# broker comes from Docker or Podman where one of them answers, else from its
# registry, and goes on after the script has ended.
#
#   parse_arguments "$@"    sets $verb (start, stop, status, fetch) and $port
#   find_engine             sets $engine to docker, podman or nothing
#   fetch_jars NAME         the jars of scripts/brokers/NAME/pom.xml; sets $jars
#   spawn DIR COMMAND...    starts a program; the command must name a path below DIR
#   await DIR SECONDS NAME COMMAND...   until the command succeeds, or the program ends
#   stop_program DIR        ends what spawn has started in DIR
#   alive DIR               whether it runs
#   start_container, stop_container, container_runs   the same with $engine
#
# What is fetched, and the brokers' data, is in $cache, which the tests of
# package test/brokers use too.

if [ -n "${SYNCHRONIZER_CACHE:-}" ]; then
	cache=$SYNCHRONIZER_CACHE
elif [ "$(uname)" = Darwin ]; then
	cache=$HOME/Library/Caches/synchronizer
else
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/synchronizer
fi
cache=$cache/brokers
brokers=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/brokers
maven_plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1
engine=''
verb=start

say() { printf '%s\n' "$1" >&2; }

fail() {
	say "$1"
	exit 1
}

# usage prints the head of the script to standard output, as an answer to -h.
usage() { awk 'NR > 3 && !/^#/ { exit } NR > 3 { sub(/^# ?/, ""); print }' "$0"; }

wrong_usage() {
	say "$1"
	usage >&2
	exit 2
}

# parse_arguments reads [start|stop|status|fetch] [--port N]; $port holds the default.
# More options of a script stand in more_options, which gets the rest of the
# arguments and sets $taken to how many it has used.
parse_arguments() {
	local words=0
	while [ $# -gt 0 ]; do
		case $1 in
		-h | --help) usage; exit 0 ;;
		--port)
			[ $# -ge 2 ] || wrong_usage '--port needs a number'
			port=$2
			shift 2
			;;
		start | stop | status | fetch)
			words=$((words + 1))
			[ "$words" -eq 1 ] || wrong_usage "one word only: $1 is too much"
			verb=$1
			shift
			;;
		*)
			taken=0
			if declare -F more_options >/dev/null; then more_options "$@"; fi
			[ "$taken" -gt 0 ] || wrong_usage "unknown: $1"
			shift "$taken"
			;;
		esac
	done
	check_port "$port"
}

check_port() {
	case $1 in
	'' | *[!0-9]* | ??????*) wrong_usage "not a port: $1" ;;
	esac
	[ "$1" -ge 1 ] && [ "$1" -le 65535 ] || wrong_usage "not a port: $1"
}

# lock FILE waits for other runs of the scripts; descriptor 9 holds it. What goes on
# after the script must not have it.
lock() {
	if command -v flock >/dev/null; then
		exec 9>"$1"
		flock 9
	fi
}

# --- what is needed

find_engine() {
	local candidate
	for candidate in docker podman; do
		if command -v "$candidate" >/dev/null && limited 10 "$candidate" info >/dev/null 2>&1; then
			engine=$candidate
			return
		fi
	done
}

# limited SECONDS COMMAND... ends a command that hangs.
limited() {
	if command -v timeout >/dev/null; then timeout "$@"; else shift; "$@"; fi
}

install_line='on Debian or Ubuntu type: apt-get install -y maven openjdk-17-jre-headless   (on macOS: brew install maven openjdk@17)'

require_java() {
	local version
	command -v java >/dev/null || fail "Java 17 or newer is needed, because neither Docker nor Podman answers; $install_line"
	version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
	[ "${version:-0}" -ge 17 ] || fail "Java 17 or newer is needed ($(command -v java) is ${version:-of an unknown version}); $install_line"
}

require_maven() {
	command -v mvn >/dev/null || fail "Maven is needed to fetch the broker; $install_line"
}

# fetch_jars NAME fetches once per content of the pom. A folder that has its name
# is complete: it is filled under another name first. Who comes second waits.
fetch_jars() {
	local pom=$brokers/$1/pom.xml sum temporary
	sum=$(cksum <"$pom" | tr ' ' -)
	jars=$cache/$1/jars-$sum
	[ ! -d "$jars" ] || return 0
	require_java
	require_maven
	mkdir -p "$cache/$1"
	lock "$cache/$1/lock"
	if [ ! -d "$jars" ]; then
		say "fetching the jars of $1 into $jars (once)"
		temporary=$(mktemp -d "$cache/$1/fetching.XXXXXX")
		# Maven writes its own messages to standard output.
		if ! mvn -q -B -ntp -f "$pom" "$maven_plugin:copy-dependencies" \
			-DincludeScope=runtime -DoutputDirectory="$temporary" </dev/null 9>&- >&2; then
			rm -rf "$temporary"
			fail "The jars of $1 could not be fetched; the reason stands above. Type the same again to go on."
		fi
		chmod 755 "$temporary"
		mv "$temporary" "$jars"
	fi
	exec 9>&-
}

# --- programs

# command_line PID is empty for a zombie and for a process that is gone.
command_line() {
	if [ -d /proc/self ]; then
		tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" || true
	else
		ps -p "$1" -o command= 2>/dev/null || true
	fi
}

# alive DIR: a pid may have gone to another program since, so its command line
# must name the folder.
alive() {
	local line
	[ -s "$1/pid" ] || return 1
	line=$(command_line "$(cat "$1/pid")")
	case $line in
	*"$1/"*) return 0 ;;
	esac
	return 1
}

# ended PID: gone, or a zombie without threads. A killed program holds its ports
# until its last thread has ended, which /proc shows.
ended() {
	if [ ! -d /proc/self ]; then
		! kill -0 "$1" 2>/dev/null
		return
	fi
	[ ! -d "/proc/$1" ] || awk '/^State:/ { state = $2 } /^Threads:/ { threads = $2 }
		END { exit !(state == "Z" && threads <= 1) }' "/proc/$1/status" 2>/dev/null || [ ! -d "/proc/$1" ]
}

port_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# require_free PORT... comes before a start: else another program could answer in
# place of the broker.
require_free() {
	local one
	for one; do
		! port_taken "$one" || fail "Port $one is in use; choose another one with --port N."
	done
}

spawn() {
	local dir=$1
	shift
	set -m # a process group of its own: the Ctrl-C of a terminal does not reach it
	(cd "$dir" && exec nohup "$@") >"$dir/log" 2>&1 </dev/null 9>&- &
	set +m
	echo $! >"$dir/pid"
	disown
	local _
	for _ in 1 2 3 4 5 6 7 8 9 10; do # until the subshell has become the program
		! alive "$dir" || return 0
		sleep 0.1
	done
}

await() {
	local dir=$1 limit=$2 name=$3 began=$SECONDS told=$SECONDS
	shift 3
	trap 'stop_program "$dir"; exit 130' INT TERM HUP
	say "starting $name (log: $dir/log)"
	until alive "$dir" && "$@" >/dev/null 2>&1; do
		if ! alive "$dir"; then
			tail -n 20 "$dir/log" >&2
			rm -f "$dir/pid"
			fail "$name did not start; the end of its log stands above."
		fi
		if [ $((SECONDS - began)) -ge "$limit" ]; then
			tail -n 20 "$dir/log" >&2
			stop_program "$dir"
			fail "$name was not ready after $limit s; the end of its log stands above."
		fi
		if [ $((SECONDS - told)) -ge 5 ]; then
			told=$SECONDS
			say "still waiting for $name ($((SECONDS - began)) s)"
		fi
		sleep 0.2
	done
	trap - INT TERM HUP
}

stop_program() {
	local pid tries=150
	if alive "$1"; then
		pid=$(cat "$1/pid")
		kill -TERM "$pid" 2>/dev/null || true
		until ended "$pid"; do
			tries=$((tries - 1))
			[ "$tries" -ne 0 ] || kill -KILL "$pid" 2>/dev/null || true
			sleep 0.2
		done
	fi
	rm -f "$1/pid"
}

# --- containers; the data lives in the container, which stop keeps

container_runs() { [ "$("$engine" container inspect -f '{{.State.Running}}' "$1" 2>/dev/null)" = true ]; }

# start_container NAME ARGUMENT... are those of "run" behind the name.
start_container() {
	local name=$1
	shift
	if "$engine" container inspect "$name" >/dev/null 2>&1; then
		"$engine" start "$name" >/dev/null || fail "Container $name did not start; '$engine rm $name' removes it and its data."
	else
		"$engine" run -d --name "$name" "$@" >/dev/null || fail "Container $name could not be made; the reason stands above."
	fi
}

# await_container NAME SECONDS COMMAND...
await_container() {
	local name=$1 end=$((SECONDS + $2))
	shift 2
	say "starting container $name"
	until "$@" >/dev/null 2>&1; do
		if ! container_runs "$name" || [ "$SECONDS" -ge "$end" ]; then
			"$engine" logs --tail 20 "$name" >&2 || true
			fail "Container $name is not ready; the end of its log stands above."
		fi
		sleep 0.5
	done
}

stop_container() { ! container_runs "$1" || "$engine" stop "$1" >/dev/null; }
