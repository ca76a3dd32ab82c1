-- SPDX-License-Identifier: Apache-2.0
-- What people may build on: these views keep their names and columns. docs/store.md
-- describes them. Times are texts in UTC, such as 2026-03-01 12:00:00.123.
-- +goose Up

CREATE VIEW fleet_clusters AS
SELECT c.account, c.name AS cluster,
       strftime('%Y-%m-%d %H:%M:%f', nullif(c.first_seen, 0) / 1000000.0, 'unixepoch') AS first_seen,
       strftime('%Y-%m-%d %H:%M:%f', nullif(c.last_seen, 0) / 1000000.0, 'unixepoch') AS last_seen,
       strftime('%Y-%m-%d %H:%M:%f', nullif(c.connected_at, 0) / 1000000.0, 'unixepoch') AS connected_at,
       c.connection_id, c.synchronizer_version, c.helm_version, c.git_version AS kubernetes_version, c.cloud_provider, c.cluster_uid,
       (SELECT coalesce(sum(k.objects), 0) FROM kinds k WHERE k.cluster = c.id) AS objects
FROM clusters c WHERE c.deleted_at = 0;

CREATE VIEW fleet_kinds AS
SELECT c.account, c.name AS cluster, k.grp AS "group", k.version, k.resource, k.objects,
       strftime('%Y-%m-%d %H:%M:%f', nullif(k.last_change, 0) / 1000000.0, 'unixepoch') AS last_change
FROM kinds k JOIN clusters c ON c.id = k.cluster WHERE c.deleted_at = 0;

CREATE VIEW fleet_objects AS
SELECT c.account, c.name AS cluster, k.grp AS "group", k.version, k.resource, o.ns AS namespace, o.name,
       o.uid, o.rv AS resource_version, o.checksum, o.state,
       strftime('%Y-%m-%d %H:%M:%f', o.updated_at / 1000000.0, 'unixepoch') AS updated_at, o.labels,
       CASE WHEN json_valid(o.body) THEN o.body END AS body
FROM objects o JOIN kinds k ON k.id = o.kind JOIN clusters c ON c.id = k.cluster
WHERE o.deleted_at = 0 AND c.deleted_at = 0;

CREATE VIEW fleet_deleted AS
SELECT c.account, c.name AS cluster, k.grp AS "group", k.version, k.resource, o.ns AS namespace, o.name,
       strftime('%Y-%m-%d %H:%M:%f', o.deleted_at / 1000000.0, 'unixepoch') AS deleted_at
FROM objects o JOIN kinds k ON k.id = o.kind JOIN clusters c ON c.id = k.cluster
WHERE o.deleted_at > 0 AND c.deleted_at = 0;

CREATE VIEW fleet_events AS
SELECT c.account, c.name AS cluster, k.grp AS "group", k.version, k.resource, e.ns AS namespace, e.name,
       strftime('%Y-%m-%d %H:%M:%f', e.at / 1000000.0, 'unixepoch') AS at, e.uid, e.rv AS resource_version,
       CASE WHEN json_valid(e.body) THEN e.body END AS body
FROM events e JOIN kinds k ON k.id = e.kind JOIN clusters c ON c.id = k.cluster WHERE c.deleted_at = 0;

CREATE VIEW fleet_changes AS
SELECT a.name AS account, h.pos AS position, CASE h.op WHEN 1 THEN 'put' WHEN 2 THEN 'delete' ELSE 'cluster deleted' END AS op,
       c.name AS cluster, k.grp AS "group", k.version, k.resource, h.ns AS namespace, h.name,
       strftime('%Y-%m-%d %H:%M:%f', h.at / 1000000.0, 'unixepoch') AS at
FROM changes h JOIN accounts a ON a.id = h.account JOIN clusters c ON c.id = h.cluster LEFT JOIN kinds k ON k.id = h.kind;
