-- SPDX-License-Identifier: Apache-2.0
-- What people may build on: these views keep their names and columns. docs/store.md
-- describes them.
-- +goose Up

CREATE VIEW fleet_clusters AS
SELECT a.name AS account, c.name AS cluster, c.first_seen, c.last_seen, c.connected_at, c.connection_id,
       c.synchronizer_version, c.helm_version, c.git_version AS kubernetes_version, c.cloud_provider, c.cluster_uid,
       (SELECT coalesce(sum(k.objects), 0)::bigint FROM kinds k WHERE k.cluster = c.id) AS objects
FROM clusters c JOIN accounts a ON a.id = c.account WHERE c.deleted_at IS NULL;

CREATE VIEW fleet_kinds AS
SELECT a.name AS account, c.name AS cluster, k.grp AS "group", k.version, k.resource, k.objects, k.last_change
FROM kinds k JOIN clusters c ON c.id = k.cluster JOIN accounts a ON a.id = c.account WHERE c.deleted_at IS NULL;

CREATE VIEW fleet_objects AS
SELECT a.name AS account, c.name AS cluster, k.grp AS "group", k.version, k.resource, o.ns AS namespace, o.name,
       o.uid, o.rv AS resource_version, o.checksum, o.state, o.updated_at, o.labels,
       CASE WHEN o.body_ok THEN o.body END AS body
FROM objects o JOIN kinds k ON k.id = o.kind JOIN clusters c ON c.id = k.cluster JOIN accounts a ON a.id = c.account
WHERE o.deleted_at IS NULL AND c.deleted_at IS NULL;

CREATE VIEW fleet_deleted AS
SELECT a.name AS account, c.name AS cluster, k.grp AS "group", k.version, k.resource, o.ns AS namespace, o.name, o.deleted_at
FROM objects o JOIN kinds k ON k.id = o.kind JOIN clusters c ON c.id = k.cluster JOIN accounts a ON a.id = c.account
WHERE o.deleted_at IS NOT NULL AND c.deleted_at IS NULL;

CREATE VIEW fleet_events AS
SELECT a.name AS account, c.name AS cluster, k.grp AS "group", k.version, k.resource, e.ns AS namespace, e.name,
       e.at, e.uid, e.rv AS resource_version, CASE WHEN e.body_ok THEN e.body END AS body
FROM events e JOIN kinds k ON k.id = e.kind JOIN clusters c ON c.id = k.cluster JOIN accounts a ON a.id = c.account
WHERE c.deleted_at IS NULL;

CREATE VIEW fleet_changes AS
SELECT a.name AS account, ch.pos AS position, CASE ch.op WHEN 1 THEN 'put' WHEN 2 THEN 'delete' ELSE 'cluster deleted' END AS op,
       c.name AS cluster, k.grp AS "group", k.version, k.resource, ch.ns AS namespace, ch.name, ch.at
FROM changes ch JOIN accounts a ON a.id = ch.account JOIN clusters c ON c.id = ch.cluster LEFT JOIN kinds k ON k.id = ch.kind;
