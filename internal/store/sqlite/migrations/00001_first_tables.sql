-- SPDX-License-Identifier: Apache-2.0
-- Times are microseconds since 1970 (UTC), 0 where unknown:
--   SELECT datetime(updated_at / 1000000, 'unixepoch') FROM objects;
-- +goose Up

CREATE TABLE clusters (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    account              TEXT    NOT NULL,
    name                 TEXT    NOT NULL,
    generation           INTEGER NOT NULL DEFAULT 0, -- the last one that a source was given
    connection_id        TEXT    NOT NULL DEFAULT '', -- of the newest connection, as all down to resource_group
    connected_at         INTEGER NOT NULL DEFAULT 0,
    synchronizer_version TEXT    NOT NULL DEFAULT '',
    helm_version         TEXT    NOT NULL DEFAULT '',
    git_version          TEXT    NOT NULL DEFAULT '',
    cloud_provider       TEXT    NOT NULL DEFAULT '',
    cluster_uid          TEXT    NOT NULL DEFAULT '',
    resource_group       TEXT    NOT NULL DEFAULT '',
    first_seen           INTEGER NOT NULL DEFAULT 0,
    last_seen            INTEGER NOT NULL DEFAULT 0,
    UNIQUE (account, name)
);

CREATE TABLE sources (
    cluster    INTEGER NOT NULL REFERENCES clusters (id),
    source     TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (cluster, source)
) WITHOUT ROWID;

-- objects and last_change are kept by every write, so that a list of clusters
-- costs one row a kind. floor_gen and floor_seq are the order below which a
-- statement about an absent object is late (set when tombstones are purged).
CREATE TABLE kinds (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    cluster     INTEGER NOT NULL REFERENCES clusters (id),
    grp         TEXT    NOT NULL,
    version     TEXT    NOT NULL,
    resource    TEXT    NOT NULL,
    floor_gen   INTEGER NOT NULL DEFAULT 0,
    floor_seq   INTEGER NOT NULL DEFAULT 0,
    objects     INTEGER NOT NULL DEFAULT 0, -- without tombstones
    last_change INTEGER NOT NULL DEFAULT 0,
    UNIQUE (cluster, grp, version, resource)
);

-- The body is last, so that reading the other columns touches one page. It is
-- TEXT with the exact bytes, whatever they are: check json_valid(body) before
-- using -> on bodies that nobody vouched for.
CREATE TABLE objects (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       INTEGER NOT NULL REFERENCES kinds (id),
    ns         TEXT    NOT NULL, -- empty for cluster-scoped objects
    name       TEXT    NOT NULL,
    uid        TEXT    NOT NULL,
    rv         TEXT    NOT NULL,
    checksum   TEXT    NOT NULL,
    offered    TEXT    NOT NULL,
    gen        INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER NOT NULL, -- 0 unless the row is a tombstone
    state      TEXT    NOT NULL,
    labels     TEXT,             -- {"key":"value"}, sorted by key; NULL for none
    body       TEXT
);
CREATE UNIQUE INDEX objects_key ON objects (kind, ns, name);

-- One row per label of an object. label is 63 bits of the SHA-256 of key, NUL
-- and value; a hit is compared with objects.labels.
CREATE TABLE labels (
    label INTEGER NOT NULL,
    kind  INTEGER NOT NULL,
    obj   INTEGER NOT NULL,
    PRIMARY KEY (label, kind, obj)
) WITHOUT ROWID;

-- One row per change, in the order of the commits. op is 1 for put, 2 for delete.
CREATE TABLE changes (
    pos INTEGER PRIMARY KEY AUTOINCREMENT,
    obj INTEGER NOT NULL,
    op  INTEGER NOT NULL,
    at  INTEGER NOT NULL,
    gen INTEGER NOT NULL,
    seq INTEGER NOT NULL
);

-- hash is the SHA-256 of the secret, which is stored nowhere.
CREATE TABLE access_keys (
    hash       BLOB    PRIMARY KEY,
    account    TEXT    NOT NULL,
    cluster    TEXT    NOT NULL, -- empty: all clusters of the account
    created    INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE api_tokens (
    hash       BLOB    PRIMARY KEY,
    account    TEXT    NOT NULL, -- empty: all accounts
    cluster    TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    created    INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
