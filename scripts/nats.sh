#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/nats.sh [start|stop|status] [--port N]
#
# Starts one NATS server with JetStream on this machine (127.0.0.1, port 4222 or
# N), to try Synchronizer with it; prints what to put into the configuration. It
# comes from Docker or Podman where one of them answers, else it is built from its
# Go module, and then needs Go. stop keeps its data; status ends with 3 if it does
# not run. "fetch" builds the server only and prints where it is.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/brokers.sh"

module=github.com/nats-io/nats-server/v2
port=4222
parse_arguments "$@"
dir=$cache/nats/broker-$port
container=synchronizer-nats-$port
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The version stands in go.mod: it is that of the embedded queue.
version() { (cd "$checkout" && go list -m -f '{{.Version}}' "$module"); }

# build_server builds once per version and machine; sets $server.
build_server() {
	local temporary
	command -v go >/dev/null ||
		fail 'Go 1.26 or newer is needed to build the server, because neither Docker nor Podman answers: install it from https://go.dev/dl/'
	server=$cache/nats/nats-server-$(version)-$(go env GOOS)-$(go env GOARCH) || fail 'go.mod could not be read; the reason stands above.'
	[ ! -x "$server" ] || return 0
	mkdir -p "$cache/nats"
	if command -v flock >/dev/null; then
		exec 9>"$cache/nats/lock"
		flock 9
	fi
	if [ ! -x "$server" ]; then
		say "building $server (once)"
		temporary=$(mktemp "$cache/nats/building.XXXXXX")
		if ! (cd "$checkout" && go build -buildvcs=false -o "$temporary" "$module") 9>&- >&2; then
			rm -f "$temporary"
			fail 'The server could not be built; the reason stands above.'
		fi
		chmod 755 "$temporary"
		mv "$temporary" "$server"
	fi
	exec 9>&-
}

if [ "$verb" = fetch ]; then
	build_server
	printf '%s\n' "$server"
	exit 0
fi
find_engine

configuration() {
	cat <<END
NATS is ready at 127.0.0.1:$port. Put this into the configuration:

  "backend": {
    "messageQueue": {
      "type": "nats",
      "natsConfig": { "servers": ["nats://127.0.0.1:$port"] }
    }
  }

To end it: scripts/nats.sh stop$([ "$port" = 4222 ] || printf ' --port %s' "$port")
END
}

runs() { alive "$dir" || { [ -n "$engine" ] && container_runs "$container"; }; }

case $verb in
status)
	if runs; then
		echo "NATS runs at 127.0.0.1:$port"
	else
		echo "NATS does not run at 127.0.0.1:$port"
		exit 3
	fi
	;;
stop)
	stop_program "$dir"
	[ -z "$engine" ] || stop_container "$container"
	;;
start)
	if runs; then
		configuration
		exit 0
	fi
	require_free "$port"
	if [ -n "$engine" ]; then
		start_container "$container" -p "127.0.0.1:$port:4222" nats:2.12 -js -sd /data
		await_container "$container" 30 eval "\"$engine\" logs \"$container\" 2>&1 | grep -q 'Server is ready'"
		configuration
		exit 0
	fi
	build_server
	mkdir -p "$dir"
	spawn "$dir" "$server" -a 127.0.0.1 -p "$port" -js -sd "$dir/data"
	await "$dir" 30 NATS grep -q 'Server is ready' "$dir/log"
	configuration
	;;
esac
