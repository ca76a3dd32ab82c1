#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/pulsar.sh [start|stop|status] [--port N]
#
# Starts one Apache Pulsar broker on this machine (127.0.0.1, port 6650 or N), to
# try Synchronizer with it; prints what to put into the configuration. It comes
# from Docker or Podman where one of them answers, else from Maven's registry, and
# then needs Java 17 and Maven. Its admin service is at port 8081, or N+1 with
# --port N. stop keeps its data; status ends with 3 if it does not run. "fetch"
# gets the jars only and prints their folder.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/brokers.sh"

image=apachepulsar/pulsar:4.0.7
port=6650
parse_arguments "$@"
if [ "$port" = 6650 ]; then admin=8081; else admin=$((port + 1)); fi
bookie=$((port + 2))
dir=$cache/pulsar/broker-$port
container=synchronizer-pulsar-$port

if [ "$verb" = fetch ]; then
	fetch_jars pulsar
	printf '%s\n' "$jars"
	exit 0
fi
find_engine

configuration() {
	cat <<END
Pulsar is ready at pulsar://127.0.0.1:$port (admin: http://127.0.0.1:$admin). Put this into the configuration:

  "backend": {
    "pulsarConfig": {
      "url": "pulsar://127.0.0.1:$port",
      "adminUrl": "http://127.0.0.1:$admin",
      "tenant": "armo", "namespace": "kubescape", "clusters": ["standalone"]
    }
  }

To end it: scripts/pulsar.sh stop$([ "$port" = 6650 ] || printf ' --port %s' "$port")
END
}

runs() { alive "$dir" || { [ -n "$engine" ] && container_runs "$container"; }; }

# healthy asks the broker to publish a message and to read it again. It gets the
# address as an argument, because "limited" starts a shell of its own.
healthy() {
	# shellcheck disable=SC2016 # $1 is for that shell
	limited 20 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" &&
		printf "GET /admin/v2/brokers/health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n" >&3 &&
		read -r _ status _ <&3 && [ "$status" = 200 ]' healthy "$admin"
}

case $verb in
status)
	if runs; then
		echo "Pulsar runs at pulsar://127.0.0.1:$port (admin: http://127.0.0.1:$admin)"
	else
		echo "Pulsar does not run at pulsar://127.0.0.1:$port"
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
	check_port "$bookie"
	if [ -n "$engine" ]; then
		require_free "$port" "$admin"
		# The port is the same inside, because the broker tells it to its clients.
		start_container "$container" -p "127.0.0.1:$port:$port" -p "127.0.0.1:$admin:$admin" \
			-e PULSAR_PREFIX_brokerServicePort="$port" -e PULSAR_PREFIX_webServicePort="$admin" \
			-e PULSAR_PREFIX_advertisedAddress=127.0.0.1 \
			-e PULSAR_PREFIX_acknowledgmentAtBatchIndexLevelEnabled=true \
			-e PULSAR_PREFIX_brokerDeleteInactiveTopicsEnabled=false "$image" \
			bash -c 'bin/apply-config-from-env.py conf/standalone.conf && exec bin/pulsar standalone -nfw -nss'
		await_container "$container" 120 healthy
		configuration
		exit 0
	fi
	fetch_jars pulsar
	require_java
	require_free "$port" "$admin" "$bookie"
	mkdir -p "$dir"
	cat "$brokers/pulsar/standalone.conf" - >"$dir/standalone.conf" <<END
brokerServicePort=$port
webServicePort=$admin
END
	# Without the server's optimizing compiler it starts faster and needs less memory.
	spawn "$dir" java -Xms64m -Xmx256m -XX:MaxDirectMemorySize=256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
		--add-opens java.base/sun.net=ALL-UNNAMED \
		--add-opens java.base/java.lang=ALL-UNNAMED \
		--add-opens java.base/java.nio=ALL-UNNAMED \
		--add-opens java.base/jdk.internal.misc=ALL-UNNAMED \
		--add-opens java.base/jdk.internal.platform=ALL-UNNAMED \
		--add-opens java.management/sun.management=ALL-UNNAMED \
		--add-opens jdk.management/com.sun.management.internal=ALL-UNNAMED \
		-Dio.netty.tryReflectionSetAccessible=true -Dio.netty.leakDetectionLevel=disabled \
		-Dlog4j2.configurationFile="file:$brokers/log4j2.xml" \
		-cp "$jars/*" org.apache.pulsar.PulsarStandaloneStarter \
		-c "$dir/standalone.conf" -nfw -nss -a 127.0.0.1 --bookkeeper-port="$bookie" \
		--metadata-dir="$dir/data/metadata" --bookkeeper-dir="$dir/data/bookkeeper"
	await "$dir" 120 Pulsar healthy
	configuration
	;;
esac
