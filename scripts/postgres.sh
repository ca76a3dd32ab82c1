#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/postgres.sh [start|stop|status] [--port N]
#
# Starts one PostgreSQL server on this machine (127.0.0.1, port 5432 or N), to try
# Synchronizer with it; prints what to put into the configuration. It comes from
# Docker or Podman where one of them answers, else from the system's package
# (Debian: postgresql), and then runs as a user other than root. stop keeps its data;
# status ends with 3 if it does not run. "fetch" only prints where the programs are.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/brokers.sh"

image=postgres:17
port=5432
parse_arguments "$@"
container=synchronizer-postgres-$port

# PostgreSQL does not run as root. Its user must be able to enter the folder, which
# those below root's home are not.
as=()
if [ "$(id -u)" -eq 0 ]; then
	owner=postgres
	id -u "$owner" >/dev/null 2>&1 || owner=nobody
	group=$(id -gn "$owner")
	as=(setpriv --reuid="$owner" --regid="$group" --init-groups)
	[ -n "${SYNCHRONIZER_CACHE:-}" ] || cache=/var/cache/synchronizer/brokers
fi
dir=$cache/postgres/server-$port

# find_programs sets $programs to the folder of the newest version.
find_programs() {
	local place
	programs=''
	# shellcheck disable=SC2012 # names of versions have no odd characters
	place=$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1)
	[ -n "$place" ] || place=$(command -v initdb || true)
	[ -n "$place" ] || fail 'PostgreSQL is needed, because neither Docker nor Podman answers; on Debian or Ubuntu type: apt-get install -y --no-install-recommends postgresql   (on macOS: brew install postgresql@17)'
	programs=$(dirname "$place")
}

if [ "$verb" = fetch ]; then
	find_programs
	printf '%s\n' "$programs"
	exit 0
fi
find_engine

url() { printf 'postgres://synchronizer:%s@127.0.0.1:%s/synchronizer?sslmode=disable' "$(cat "$dir/password")" "$port"; }

configuration() {
	cat <<END
PostgreSQL is ready at 127.0.0.1:$port. Put this into the configuration:

  "store": {
    "postgres": { "url": "$(url)" }
  }

To look into it:  psql '$(url)'
To end it: scripts/postgres.sh stop$([ "$port" = 5432 ] || printf ' --port %s' "$port")
END
}

# find_server knows a server whose pid file was lost, or that pg_ctl has started: its
# own file has the pid.
find_server() {
	alive "$dir" || [ ! -r "$dir/data/postmaster.pid" ] || head -n 1 "$dir/data/postmaster.pid" >"$dir/pid"
	alive "$dir"
}

runs() { find_server || { [ -n "$engine" ] && container_runs "$container"; }; }

# run_program runs one of PostgreSQL's programs as its user, in its folder.
run_program() { (cd "$dir" && ${as[@]+"${as[@]}"} "$programs/$@"); }

# make_password makes one once; it is in the URL, so it has letters and digits only.
make_password() {
	[ ! -s "$dir/password" ] || return 0
	(
		umask 077
		head -c 24 /dev/urandom | base64 | tr -d '/+=\n' >"$dir/password"
	)
	[ "${#as[@]}" -eq 0 ] || chown "$owner:$group" "$dir/password"
}

# make_database makes the database unless it is there.
make_database() {
	local list
	list=$(PGPASSWORD=$(cat "$dir/password") run_program psql -h 127.0.0.1 -p "$port" -U synchronizer -d postgres -Atc "SELECT 1 FROM pg_database WHERE datname = 'synchronizer'")
	[ "$list" = 1 ] || PGPASSWORD=$(cat "$dir/password") run_program createdb -h 127.0.0.1 -p "$port" -U synchronizer -E UTF8 -T template0 synchronizer
}

# make_cluster prepares the folder of the data, under another name first: what was
# interrupted is never taken for a whole one.
make_cluster() {
	[ ! -f "$dir/data/PG_VERSION" ] || return 0
	rm -rf "$dir/data.new"
	run_program initdb -D "$dir/data.new" -U synchronizer --auth=scram-sha-256 --pwfile="$dir/password" -E UTF8 --locale=C >"$dir/log" 2>&1 ||
		{ tail -n 20 "$dir/log" >&2; rm -rf "$dir/data.new"; fail 'The folder of the data could not be prepared; the reason stands above.'; }
	mv "$dir/data.new" "$dir/data"
}

# forget_zombies: PostgreSQL takes a killed server that nobody has reaped, as happens
# in containers, for one that runs. With a pid that cannot be it goes on, and still
# looks itself whether anybody uses the data.
forget_zombies() {
	local file pid
	for file in "$dir/data/postmaster.pid" "$dir/.s.PGSQL.$port.lock"; do
		[ -s "$file" ] || continue
		pid=$(head -n 1 "$file")
		case $pid in
		'' | *[!0-9]*) continue ;;
		esac
		if kill -0 "$pid" 2>/dev/null && ended "$pid"; then
			printf '%s\n%s\n' 4194304 "$(tail -n +2 "$file")" >"$file.new"
			cat "$file.new" >"$file" # which keeps its owner
			rm -f "$file.new"
		fi
	done
}

stop_server() {
	find_server || { rm -f "$dir/pid"; return 0; }
	find_programs
	# Clients are cut off; else it would wait for them.
	run_program pg_ctl -s -D "$dir/data" -m fast -w -t 30 stop >/dev/null 2>&1 || true
	stop_program "$dir"
}

case $verb in
status)
	if runs; then
		echo "PostgreSQL runs at 127.0.0.1:$port"
	else
		echo "PostgreSQL does not run at 127.0.0.1:$port"
		exit 3
	fi
	;;
stop)
	stop_server
	[ -z "$engine" ] || stop_container "$container"
	echo "PostgreSQL at 127.0.0.1:$port is stopped; its data is kept"
	;;
start)
	mkdir -p "$dir"
	lock "$dir/lock" # who starts it at the same time waits, and finds it
	if runs; then
		configuration
		exit 0
	fi
	require_free "$port"
	[ "${#as[@]}" -eq 0 ] || { chmod 755 "$cache" "$cache/postgres"; chown "$owner:$group" "$dir"; }
	chmod 700 "$dir"
	make_password
	if [ -n "$engine" ]; then
		start_container "$container" -p "127.0.0.1:$port:5432" -e POSTGRES_USER=synchronizer \
			-e POSTGRES_PASSWORD="$(cat "$dir/password")" -e POSTGRES_DB=synchronizer "$image"
		await_container "$container" 90 "$engine" exec "$container" pg_isready -h 127.0.0.1 -U synchronizer
		configuration
		exit 0
	fi
	find_programs
	make_cluster
	have=$(cut -d. -f1 "$dir/data/PG_VERSION")
	want=$("$programs/postgres" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
	[ "$have" = "$want" ] || fail "$dir/data is of PostgreSQL $have and $want is installed: take your data along with pg_dump, or remove $dir."
	rm -f "$dir/log"
	forget_zombies
	spawn "$dir" ${as[@]+"${as[@]}"} "$programs/postgres" -D "$dir/data" -k "$dir" -c "port=$port" -c listen_addresses=127.0.0.1
	await "$dir" 60 PostgreSQL env PGPASSWORD="$(cat "$dir/password")" "$programs/psql" -h 127.0.0.1 -p "$port" -U synchronizer -d postgres -Atc 'SELECT 1'
	make_database
	configuration
	;;
esac
