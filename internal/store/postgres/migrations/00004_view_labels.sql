-- SPDX-License-Identifier: Apache-2.0
-- A label with a NUL, which only a client that makes up objects can have, would let
-- every query end with an error that looks into labels. They are NULL, as such bodies
-- are.
-- +goose Up

CREATE OR REPLACE VIEW fleet_objects AS
SELECT a.name AS account, c.name AS cluster, k.grp AS "group", k.version, k.resource, o.ns AS namespace, o.name,
       o.uid, o.rv AS resource_version, o.checksum, o.state, o.updated_at,
       CASE WHEN position('\u0000' IN o.labels::text) = 0 THEN o.labels END AS labels,
       CASE WHEN o.body_ok THEN o.body END AS body
FROM objects o JOIN kinds k ON k.id = o.kind JOIN clusters c ON c.id = k.cluster JOIN accounts a ON a.id = c.account
WHERE o.deleted_at IS NULL AND c.deleted_at IS NULL;
