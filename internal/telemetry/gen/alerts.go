// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// alert is one rule for Prometheus, and what somebody does who is woken by it.
type alert struct {
	Name     string
	Expr     string
	For      string // "" fires at once
	Severity string // critical: somebody is woken; warning: in the morning; info
	Summary  string // one line; may use the labels of the expression
	Do       string // what it means and what to do
}

// alerts is the one table of rules: configuration/alerts.yaml and docs/telemetry.md
// are made of it.
var alerts = []alert{
	{
		"SynchronizerNotReady", `synchronizer_ready == 0`, "5m", "critical",
		"{{ $labels.instance }} is not ready",
		"Ask `/readyz` of the process: its text says what is missing. *queue …*: look at the broker; clients are not let in, or wait, and nothing that was accepted is lost. *database …*: the ingester has stopped taking records, which stay in the queue; mind the queue's retention. *not yet connected*: a client has never reached its server; its log says why. the text may also name the ConfigMap of the namespace filter, which is missing or wrong.",
	},
	{
		"SynchronizerServerGone", `absent(synchronizer_connected_clients_count)`, "5m", "critical",
		"no server of Synchronizer is scraped",
		"Either no server runs, or Prometheus does not reach port 7888 (`backend.healthPort`) or that of `backend.prometheusConfig`. Clients reconnect by themselves and say again what they had said in the last 100 s.",
	},
	{
		"SynchronizerClientsGone", `sum(synchronizer_connected_clients_count) == 0 and sum(max_over_time(synchronizer_connected_clients_count[1h])) > 0`, "10m", "critical",
		"all clients have left and none has come back",
		"A server, load balancer or certificate in front of them has changed, or nobody can authenticate: look for `client refused` in the server's log, and at `synchronizer_relay_refused_connections_total`. Clients list everything again when they are back; only what changed is sent.",
	},
	{
		"SynchronizerConnectionsFlap", `sum by (account, cluster) (increase(synchronizer_client_disconnection_count[15m])) > 5`, "5m", "warning",
		"{{ $labels.account }}/{{ $labels.cluster }} connects again and again",
		"Something between client and server cuts the connection (an idle limit of a proxy below 50 s is the usual cause), or two clients claim one cluster: the server's log then says that clients replace each other. `account=\"other\"` stands for the clusters behind the first 1,000.",
	},
	{
		"SynchronizerConnectionsRefused", `increase(synchronizer_relay_refused_connections_total[15m]) > 20`, "15m", "warning",
		"{{ $labels.instance }} refuses clients",
		"The log names account, cluster and reason of each, of 300 in ten seconds: a wrong or revoked key, an authentication server that is away (503, tried again), or the process is not ready.",
	},
	{
		"SynchronizerPublishFails", `sum by (backend) (rate(synchronizer_mq_producer_messages_produced_count{status="error"}[5m])) > 0`, "5m", "critical",
		"the queue {{ $labels.backend }} does not take records",
		"The broker is away, full or refuses. Links are closed after 20 s and clients say again what was not confirmed; nothing that was confirmed is lost. Look at the broker, its disk and the limits of its topics.",
	},
	{
		"SynchronizerIngesterStands", `sum(rate(synchronizer_mq_producer_messages_produced_count{status="success"}[10m])) > 0 unless sum(rate(synchronizer_ingester_records_total[10m])) > 0`, "15m", "critical",
		"records are published and no ingester finishes any",
		"Look at `/readyz` and the log of the ingesters: a database that is away or slow is named there. Records wait in the queue; mind its retention. It fires, too, where Prometheus does not reach port 7888 of the ingesters; with somebody else's ingester, leave this rule out.",
	},
	{
		"SynchronizerIngesterRetries", `sum by (of) (rate(synchronizer_ingester_retries_total[5m])) > 0`, "10m", "warning",
		"the ingester tries its {{ $labels.of }} again and again",
		"`store`: the database is away, full or slow; `queue`: answers and dead letters cannot be published. Nothing is acknowledged before it works.",
	},
	{
		"SynchronizerStoreSlow", `histogram_quantile(0.99, sum by (le) (rate(synchronizer_ingester_transaction_seconds_bucket[10m]))) > 2`, "15m", "warning",
		"transactions of the store take more than 2 s",
		"See what the database waits for: its disk (`fsync`), locks of somebody's long query, or missing vacuum. `ingester.batchMax` makes transactions smaller, `ingester.workers` runs several at once on PostgreSQL.",
	},
	{
		"SynchronizerDataLost", `sum by (reason) (increase(synchronizer_drops_total{reason=~"dead_letter|too_large|unreadable_object|chunks_missing|replay_oversized"}[15m])) > 0`, "", "warning",
		"something is not carried: {{ $labels.reason }}",
		"The log line `dropped` names it (with its `traceId`, if there is one). `dead_letter`: the record is on the dead-letter topic; mend its cause, then publish it again. `too_large`: raise the limit or exclude the object. `unreadable_object`: the API server gave what is no object. `chunks_missing`: parts of a large record were lost on the broker. `replay_oversized`: raise `backend.replay.maxBytes`.",
	},
	{
		"SynchronizerCommandsLost", `sum by (reason) (increase(synchronizer_drops_total{reason=~"client_backlog_full|client_disconnected|client_unheard"}[15m])) > 0`, "", "warning",
		"commands for clients are dropped: {{ $labels.reason }}",
		"A client does not read, or has left. `client_backlog_full` schedules a reconciliation by itself. Otherwise send the command again, or let servers keep what a client missed (`backend.replay.enabled`).",
	},
	{
		"SynchronizerReplayForgets", `sum by (reason) (increase(synchronizer_drops_total{reason=~"replay_expired|replay_capacity"}[15m])) > 0`, "", "info",
		"what was kept for clients that are away is forgotten: {{ $labels.reason }}",
		"With one server this is a loss: `replay_expired`: the client did not come back within `backend.replay.ttlSeconds`; `replay_capacity`: raise the limits of `backend.replay`. With several servers it is usual, since each also keeps what another has delivered; then leave this rule out.",
	},
	{
		"SynchronizerQueueRefused", `increase(synchronizer_drops_total{reason="queue_refused"}[15m]) > 0`, "", "warning",
		"{{ $labels.instance }} read what the queue did not take",
		"Its clients were disconnected and say again after the reconnect what they had said in the last 100 s; a reconciliation is scheduled. See SynchronizerPublishFails.",
	},
	{
		"SynchronizerFaultySender", `sum by (reason) (increase(synchronizer_drops_total{reason=~"malformed|identity_mismatch|text_frame|unknown_event|too_deep"}[15m])) > 0`, "", "info",
		"somebody speaks another protocol: {{ $labels.reason }}",
		"A client, server or service of another version, or with a fault, sends what cannot be understood. The log line `dropped` names what it was about. `identity_mismatch`: a record claims another account or cluster than its properties; find out who publishes on the topic.",
	},
	{
		"SynchronizerClientCut", `synchronizer_agent_connected == 0`, "10m", "warning",
		"the client {{ $labels.instance }} has no link",
		"Its log says why it cannot connect, and when it tries again. Changes are not lost: only their keys are kept, and the newest state is sent after the reconnect. Reports to its HTTP endpoint are refused with 429 meanwhile.",
	},
	{
		"SynchronizerKindNotWatched", `sum by (instance, kind, state) (synchronizer_agent_kind_state{state=~"forbidden|failing"}) > 0`, "15m", "warning",
		"{{ $labels.kind }} is not synchronized: {{ $labels.state }}",
		"`forbidden`: give the client's service account list and watch on the kind, or take it out of `inCluster.resources`. `failing`: the API server answers with errors; `/status` of the client shows the last one. Other kinds go on.",
	},
	{
		"SynchronizerClientBehind", `sum by (instance, kind) (min_over_time(synchronizer_agent_dirty[30m])) > 0`, "5m", "warning",
		"{{ $labels.kind }} has been behind for half an hour",
		"Objects change faster than the link, the server or the queue takes them. Look at SynchronizerPublishFails and SynchronizerClientCut first, then exclude namespaces or kinds that change all the time.",
	},
	{
		"SynchronizerEndpointRefuses", `sum by (instance, code) (rate(synchronizer_endpoint_requests_total{code=~"429|413|5.."}[5m])) > 0`, "15m", "warning",
		"reports to {{ $labels.instance }} are refused with {{ $labels.code }}",
		"429: the link is down or the reporters are faster than the link; they try again. 413: a report above 4 MiB. 503: the API server cannot review the caller's token (docs/http-endpoint.md has the rights that the client needs), or the report could not be handed on in time.",
	},
	{
		"SynchronizerFilterRejected", `increase(synchronizer_namespace_filter_updates_total{result="rejected"}[15m]) > 0`, "", "warning",
		"the namespace filter of {{ $labels.instance }} is not valid",
		"The last valid rules stay in force. The log says what is wrong with the ConfigMap; docs/namespace-filter.md says how it must look.",
	},
	{
		"SynchronizerCertificateExpires", `synchronizer_certificate_expiry_timestamp_seconds - time() < 7 * 86400`, "1h", "warning",
		"the certificate of {{ $labels.instance }} expires within a week",
		"Renew the files of `backend.tls`; they are read again within 10 s, without a restart. If they were renewed, the log says why they are not used.",
	},
	{
		"SynchronizerSeriesCapped", `count(synchronizer_mq_producer_messages_produced_count{account="other", cluster="other"}) > 0`, "1h", "info",
		"more than 1,000 clusters, or 100,000 series: the rest is counted as other",
		"Nothing is lost but detail. Per-cluster numbers are in the API and in `synchronizer clusters`.",
	},
	{
		"SynchronizerTracesLost", `increase(synchronizer_trace_spans_total{result="lost"}[15m]) > 0`, "30m", "info",
		"the collector does not take the spans of {{ $labels.instance }}",
		"The log says once what the collector answers. Nothing but traces is concerned.",
	},
}

// harmless are the reasons for drops about which there is no alert: they are part of
// normal work, or as configured.
var harmless = []string{
	"stale", "late", "duplicate", "patch_not_applicable", "object_gone", "out_of_scope", "kind_not_configured", "unsupported",
	"alerts_skipped", "feature_missing",
}

// rules is configuration/alerts.yaml.
func rules() string {
	var b strings.Builder
	b.WriteString("# Generated by \"go generate ./internal/telemetry\"; edit internal/telemetry/gen/alerts.go instead.\n" +
		"# What to do for each of them: docs/telemetry.md\n" +
		"groups:\n  - name: synchronizer\n    rules:\n")
	for _, a := range alerts {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: >-\n          %s\n", a.Name, a.Expr)
		if a.For != "" {
			fmt.Fprintf(&b, "        for: %s\n", a.For)
		}
		fmt.Fprintf(&b, "        labels:\n          severity: %s\n        annotations:\n          summary: %q\n", a.Severity, "Synchronizer: "+a.Summary)
	}
	return b.String()
}
