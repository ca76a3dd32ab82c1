#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: scripts/kafka.sh [start|stop|status] [--port N]
#
# Starts one Apache Kafka broker on this machine (127.0.0.1, port 9092 or N), to
# try Synchronizer with it; prints what to put into the configuration. It comes
# from Docker or Podman where one of them answers, else from Maven's registry, and
# then needs Java 17 and Maven. stop keeps its data; status ends with 3 if it does
# not run. "fetch" gets the jars only and prints their folder.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/brokers.sh"

image=apache/kafka:4.4.0
port=9092
parse_arguments "$@"
controller=$((port + 1))
dir=$cache/kafka/broker-$port
container=synchronizer-kafka-$port

if [ "$verb" = fetch ]; then
	fetch_jars kafka
	printf '%s\n' "$jars"
	exit 0
fi
find_engine

configuration() {
	cat <<END
Kafka is ready at 127.0.0.1:$port. Put this into the configuration:

  "backend": {
    "messageQueue": {
      "type": "kafka",
      "kafkaConfig": { "bootstrapServers": ["127.0.0.1:$port"] }
    }
  }

To end it: scripts/kafka.sh stop$([ "$port" = 9092 ] || printf ' --port %s' "$port")
END
}

runs() { alive "$dir" || { [ -n "$engine" ] && container_runs "$container"; }; }

case $verb in
status)
	if runs; then
		echo "Kafka runs at 127.0.0.1:$port"
	else
		echo "Kafka does not run at 127.0.0.1:$port"
		exit 3
	fi
	;;
stop)
	stop_program "$dir"
	[ -z "$engine" ] || stop_container "$container"
	echo "Kafka at 127.0.0.1:$port is stopped; its data is kept"
	;;
start)
	if runs; then
		configuration
		exit 0
	fi
	if [ -n "$engine" ]; then
		require_free "$port"
		start_container "$container" -p "127.0.0.1:$port:$port" \
			-e KAFKA_NODE_ID=1 -e KAFKA_PROCESS_ROLES=broker,controller \
			-e KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:$controller" -e KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER \
			-e KAFKA_LISTENERS="PLAINTEXT://:$port,CONTROLLER://:$controller" \
			-e KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://127.0.0.1:$port" \
			-e KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT \
			-e KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=1 -e KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR=1 \
			-e KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=1 -e KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS=0 \
			-e KAFKA_SOCKET_REQUEST_MAX_BYTES=209715200 "$image"
		await_container "$container" 90 "$engine" exec "$container" \
			/opt/kafka/bin/kafka-broker-api-versions.sh --bootstrap-server "127.0.0.1:$port"
		configuration
		exit 0
	fi
	fetch_jars kafka
	require_java
	require_free "$port" "$controller"
	mkdir -p "$dir"
	cat "$brokers/kafka/server.properties" - >"$dir/server.properties" <<END
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
END
	# Without the server's optimizing compiler it starts faster and needs half the memory.
	java=(java -Xms64m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1
		-Dlog4j2.configurationFile="file:$brokers/log4j2.xml" -cp "$jars/*")
	if [ ! -f "$dir/data/meta.properties" ]; then
		# a cluster id is 16 bytes in base64 for URLs
		id=A$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | cut -c 2-22)
		"${java[@]}" kafka.tools.StorageTool format -t "$id" -c "$dir/server.properties" >"$dir/log" 2>&1 ||
			{ tail -n 20 "$dir/log" >&2; fail 'The folder of the data could not be prepared; the reason stands above.'; }
	fi
	spawn "$dir" "${java[@]}" kafka.Kafka "$dir/server.properties"
	await "$dir" 90 Kafka grep -q 'Kafka Server started' "$dir/log"
	configuration
	;;
esac
