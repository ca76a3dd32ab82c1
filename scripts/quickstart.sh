#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/quickstart.sh [--once] [--kubeconfig FILE] [--cluster NAME] [--listen A] [--api-listen A] [--health-port N]
#
# Synchronizes a Kubernetes cluster into a store on this machine, shows what
# arrived and how to look further, and goes on until Ctrl-C. Without
# --kubeconfig the cluster is a real API server that this script starts. State
# is kept in ./data and continued the next time; remove the folder to start anew.
#
# The last three go to "synchronizer up"; port 0 is any free one.
#
# --once ends by itself after the table. It uses a temporary folder and free
# ports, so that it can run beside anything.
set -euo pipefail

usage() { sed -n 's/^# usage: //p' "$0" >&2; exit 2; }

once=false given='' cluster='' flags=()
while [ $# -gt 0 ]; do
	case $1 in
	--once) once=true; shift ;;
	--kubeconfig) given=${2:?$(usage)}; shift 2 ;;
	--cluster) cluster=${2:?$(usage)}; shift 2 ;;
	--listen | --api-listen | --health-port) flags+=("$1" "${2:?$(usage)}"); shift 2 ;;
	*) usage ;;
	esac
done
# Not every shell expands ~ behind an equals sign.
[ "${given#\~/}" = "$given" ] || given=$HOME/${given#\~/}
if [ -n "$given" ]; then
	[ -r "$given" ] || { echo "cannot read the kubeconfig $given" >&2; exit 1; }
	given=$(cd "$(dirname "$given")" && pwd)/$(basename "$given")
elif [ -n "${KUBECONFIG:-}" ]; then
	echo "KUBECONFIG of the environment is not used; to synchronize that cluster type: make up KUBECONFIG=$(printf %q "$KUBECONFIG")"
fi
unset KUBECONFIG

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/session.sh
require_go
open_session

if $once; then
	data=$work/data
	flags=(--listen 127.0.0.1:0 --api-listen 127.0.0.1:0 --health-port 0 ${flags[@]+"${flags[@]}"})
else
	data=$PWD/data
	other=$(cat "$data/quickstart.pid" 2>/dev/null || true)
	if [ -n "$other" ] && running "$other"; then
		fail "Process $other already works in $data; end it first (if it is no other quickstart, remove $data/quickstart.pid)."
	fi
fi
logs=$data/logs
mkdir -p "$logs"
chmod 700 "$data"
echo $$ >"$data/quickstart.pid"
rm -f "$logs"/*.log "$data/addresses.json"

# 1. A cluster.
if [ -n "$given" ]; then
	kubeconfig=$given
	cluster=${cluster:-my-cluster}
	patience=600s
	kubectl=kubectl
else
	cluster=${cluster:-quickstart}
	patience=60s
	build_kubernetes
	mkdir -p bin
	ln -sf "$kubernetes" bin/kubectl # the program is kubectl where it is called so
	kubectl=bin/kubectl
	echo 'starting a Kubernetes API server'
	start_kubernetes "$data/kubernetes"
	echo 'creating a few workloads in it'
	run bin/kubectl --kubeconfig "$kubeconfig" apply -f scripts/quickstart.yaml >"$logs/kubectl.log" 2>&1 ||
		fail 'The workloads could not be created.' "$logs/kubectl.log"
fi

# 2. Server, queue, ingester, store, API and a client for the cluster.
echo 'building bin/synchronizer (the first time takes a minute or more)'
build_synchronizer
echo 'starting bin/synchronizer up'
start bin/synchronizer up --data-dir "$data" ${flags[@]+"${flags[@]}"} \
	--kubeconfig "$kubeconfig" --cluster "$cluster" >"$logs/synchronizer.log" 2>&1
synchronizer=$pid
await_file "$data/addresses.json" "$synchronizer" 60 \
	"bin/synchronizer up did not start. Is a port in use? This takes free ones:
  make up ARGS='--listen 127.0.0.1:0 --api-listen 127.0.0.1:0 --health-port 0'" "$logs/synchronizer.log"
api=$(sed -n 's/.*"api"[: ]*"\([^"]*\)".*/\1/p' "$data/addresses.json")
export SYNCHRONIZER_SERVER=http://$api SYNCHRONIZER_TOKEN_FILE=$data/api-token

# 3. What arrived. diff lists the cluster anew and compares keys, uids and checksums.
echo 'waiting until the store agrees with the cluster'
run bin/synchronizer diff "$cluster" --kubeconfig "$kubeconfig" --wait "$patience" ||
	fail "The store does not agree with the cluster (waited $patience)." "$logs/synchronizer.log"
echo
run bin/synchronizer clusters || fail 'The clusters could not be read.'
echo
run bin/synchronizer get all -A --cluster "$cluster" >"$work/table" || fail 'The objects could not be read.'
# The roles of Kubernetes itself and what follows the 60th line would hide the rest.
awk '/ system:/ || shown == 60 { hidden++; next } { print; shown++ }
	END { if (hidden) printf "(%d more, most of them roles of Kubernetes itself)\n", hidden }' "$work/table"
if $once; then
	exit 0
fi

cat <<END

The API is at http://$api (token: data/api-token), logs are in data/logs.
To look further, in another terminal:

  cd $(printf %q "$PWD")
  export SYNCHRONIZER_SERVER=http://$api SYNCHRONIZER_TOKEN_FILE=data/api-token
  bin/synchronizer clusters
END
if [ -z "$given" ]; then
	cat <<END
  bin/synchronizer get deployments web -n shop --cluster $cluster -o json   # the value of env is masked

Change something in the cluster and see it arrive:

  $kubectl --kubeconfig data/kubernetes/kubeconfig -n shop scale deployment web --replicas 5
  bin/synchronizer get deployments -n shop --cluster $cluster
END
else
	echo "  bin/synchronizer get deployments -A --cluster $(printf %q "$cluster")"
fi
echo
echo 'Ctrl-C ends everything that this started.'

trap 'exit 0' INT TERM
while running "$synchronizer"; do
	pause 1
done
fail 'bin/synchronizer up has ended.' "$logs/synchronizer.log"
