-- SPDX-License-Identifier: Apache-2.0
-- Every account has a change feed of its own, objects are found by words and their
-- sets by an index, and there are events. The step behind this one, in Go, fills
-- what is computed of bodies.
-- +goose Up

-- feed_position is that of the newest change; changes up to feed_floor are gone.
CREATE TABLE accounts (
    id            INTEGER PRIMARY KEY,
    name          TEXT    NOT NULL UNIQUE,
    feed_position INTEGER NOT NULL DEFAULT 0,
    feed_floor    INTEGER NOT NULL DEFAULT 0
);
-- Changes of before are not carried over: nobody has read them.
INSERT INTO accounts (name, feed_position, feed_floor) SELECT DISTINCT account, 1, 1 FROM clusters;

-- floor_gen: sources up to this generation spoke before the cluster was deleted.
-- deleted_at is 0 unless it was deleted and no new source has spoken.
ALTER TABLE clusters ADD COLUMN floor_gen INTEGER NOT NULL DEFAULT 0;
ALTER TABLE clusters ADD COLUMN deleted_at INTEGER NOT NULL DEFAULT 0;

ALTER TABLE sources ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0; -- to an hour
UPDATE sources SET used_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER);

-- The body is last, so that reading the other columns touches one page. It is
-- TEXT with the exact bytes, whatever they are: check json_valid(body) before
-- using -> on bodies that nobody vouched for. h1 and h2 are both halves of the hash
-- of (namespace, name, digest).
CREATE TABLE new_objects (
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
    digest     BLOB,
    h1         INTEGER NOT NULL,
    h2         INTEGER NOT NULL,
    labels     TEXT,             -- {"key":"value"}, sorted by key; NULL for none
    words      INTEGER,          -- a hash of all its words; NULL for none
    body       TEXT
);
INSERT INTO new_objects (id, kind, ns, name, uid, rv, checksum, offered, gen, seq, updated_at, deleted_at, state, h1, h2, labels, body)
    SELECT id, kind, ns, name, uid, rv, checksum, offered, gen, seq, updated_at, deleted_at, state, 0, 0, labels, body FROM objects ORDER BY id;
UPDATE sqlite_sequence SET seq = max(seq, (SELECT seq FROM sqlite_sequence WHERE name = 'objects')) WHERE name = 'new_objects';
DROP TABLE objects;
ALTER TABLE new_objects RENAME TO objects;
CREATE UNIQUE INDEX objects_key ON objects (kind, ns, name);
CREATE INDEX objects_hash ON objects (kind, ns, h1, h2) WHERE deleted_at = 0;
CREATE INDEX objects_deleted ON objects (deleted_at) WHERE deleted_at > 0;

-- One row per word of an object's namespace, name, label values and images. word is
-- 48 bits of the SHA-256 of the word in lower case.
CREATE TABLE words (
    word INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    obj  INTEGER NOT NULL,
    PRIMARY KEY (word, kind, obj)
) WITHOUT ROWID;

-- One row per change, per account in the order of the commits. op is 1 for put, 2
-- for delete, 3 for a whole cluster that was deleted.
DROP TABLE changes;
CREATE TABLE changes (
    account INTEGER NOT NULL,
    pos     INTEGER NOT NULL,
    cluster INTEGER NOT NULL,
    kind    INTEGER NOT NULL, -- 0 for a cluster
    op      INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    gen     INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    ns      TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    PRIMARY KEY (account, pos)
) WITHOUT ROWID;

-- What happened and does not become something else: Falco's alerts, Kubernetes
-- events. ident makes an event unique in its kind for as long as it is kept.
CREATE TABLE events (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    account INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    ident   BLOB    NOT NULL,
    ns      TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    uid     TEXT    NOT NULL,
    rv      TEXT    NOT NULL,
    body    TEXT
);
CREATE UNIQUE INDEX events_ident ON events (kind, ident);
CREATE INDEX events_time ON events (account, at, id);
