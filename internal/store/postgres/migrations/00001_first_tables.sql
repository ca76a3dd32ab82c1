-- SPDX-License-Identifier: Apache-2.0
-- Texts that come from clusters are stored as they are, but for two characters
-- that PostgreSQL has no room for: NUL is stored as \x01\x01, \x01 as \x01\x02.
-- Nothing refers to objects, events and changes by a foreign key: a check per
-- row would cost more than the row. A transaction locks the clusters that it writes
-- to instead, and so does whoever deletes one.
-- +goose Up

-- feed_position is that of the newest change; changes up to feed_floor are gone.
CREATE TABLE accounts (
    id            integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          text COLLATE "C" NOT NULL UNIQUE,
    feed_position bigint NOT NULL DEFAULT 0,
    feed_floor    bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE clusters (
    id                   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account              integer NOT NULL REFERENCES accounts (id),
    name                 text COLLATE "C" NOT NULL,
    generation           bigint  NOT NULL DEFAULT 0, -- the last one that a source was given
    floor_gen            bigint  NOT NULL DEFAULT 0, -- sources up to this one spoke before the cluster was deleted
    deleted_at           timestamptz,                -- NULL unless it was deleted and no new source has spoken
    connection_id        text    NOT NULL DEFAULT '', -- of the newest connection, as all down to resource_group
    connected_at         timestamptz,
    synchronizer_version text    NOT NULL DEFAULT '',
    helm_version         text    NOT NULL DEFAULT '',
    git_version          text    NOT NULL DEFAULT '',
    cloud_provider       text    NOT NULL DEFAULT '',
    cluster_uid          text    NOT NULL DEFAULT '',
    resource_group       text    NOT NULL DEFAULT '',
    first_seen           timestamptz,
    last_seen            timestamptz,
    UNIQUE (account, name)
) WITH (fillfactor = 50);

CREATE TABLE sources (
    cluster    integer NOT NULL REFERENCES clusters (id),
    source     text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    used_at    timestamptz NOT NULL, -- to an hour
    PRIMARY KEY (cluster, source)
);

-- floor_gen and floor_seq are the order at or below which a statement about an
-- absent object is late.
CREATE TABLE kinds (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cluster     integer NOT NULL REFERENCES clusters (id),
    grp         text COLLATE "C" NOT NULL,
    version     text COLLATE "C" NOT NULL,
    resource    text COLLATE "C" NOT NULL,
    floor_gen   bigint NOT NULL DEFAULT 0,
    floor_seq   bigint NOT NULL DEFAULT 0,
    objects     bigint NOT NULL DEFAULT 0, -- without tombstones
    last_change timestamptz,
    UNIQUE (cluster, grp, version, resource)
) WITH (fillfactor = 50);

-- No index contains a column that changes with every update, and there is room on
-- each page: so an update touches no index. Labels and words change seldom, and
-- an array of their hashes takes a sixth of the room that a table of labels would.
--
-- A body that PostgreSQL takes as JSON is in body, byte for byte; any other is in
-- raw. body_ok says that -> and ->> work on all of body: no NUL, no half characters.
CREATE TABLE objects (
    id         bigint  NOT NULL PRIMARY KEY,
    kind       integer NOT NULL,
    ns         text COLLATE "C" NOT NULL, -- empty for cluster-scoped objects
    name       text COLLATE "C" NOT NULL,
    gen        bigint  NOT NULL,
    seq        bigint  NOT NULL,
    h1         bigint  NOT NULL, -- both halves of the hash of (namespace, name, digest)
    h2         bigint  NOT NULL,
    updated_at timestamptz,
    deleted_at timestamptz,      -- NULL unless the row is a tombstone
    body_ok    boolean NOT NULL,
    uid        text    NOT NULL,
    rv         text    NOT NULL,
    checksum   text    NOT NULL,
    offered    text    NOT NULL,
    state      text    NOT NULL,
    digest     bytea,
    labels     json,             -- {"key":"value"}, sorted by key; NULL for none
    terms      bigint[],         -- hashes of (kind, label) and (kind, word)
    body       json,
    raw        bytea
) WITH (fillfactor = 90);
-- Compressed, but in the row where that fits on a page: what is moved elsewhere is
-- written anew by every update, index and all.
ALTER TABLE objects ALTER COLUMN body SET STORAGE MAIN, ALTER COLUMN raw SET STORAGE MAIN,
    ALTER COLUMN labels SET STORAGE MAIN, ALTER COLUMN terms SET STORAGE MAIN, ALTER COLUMN uid SET STORAGE MAIN, ALTER COLUMN rv SET STORAGE MAIN,
    ALTER COLUMN checksum SET STORAGE MAIN, ALTER COLUMN offered SET STORAGE MAIN, ALTER COLUMN state SET STORAGE MAIN, ALTER COLUMN digest SET STORAGE MAIN,
    ALTER COLUMN ns SET STORAGE MAIN, ALTER COLUMN name SET STORAGE MAIN;
CREATE UNIQUE INDEX objects_key ON objects (kind, ns, name);
CREATE INDEX objects_terms ON objects USING gin (terms) WITH (gin_pending_list_limit = 1024);
CREATE INDEX objects_deleted ON objects (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE SEQUENCE object_blocks; -- of 1024 ids each

-- The set of the live objects of a namespace: the XOR of their h1 and h2, and
-- their number. It is kept by every write, because the rows of objects are too wide
-- to be read for it, and an index on h1 and h2 would double the cost of an update.
CREATE TABLE sets (
    kind    integer NOT NULL,
    ns      text COLLATE "C" NOT NULL,
    h1      bigint NOT NULL,
    h2      bigint NOT NULL,
    objects bigint NOT NULL,
    PRIMARY KEY (kind, ns)
) WITH (fillfactor = 50);

-- One row per change, per account in the order of the commits. op is 1 for put, 2
-- for delete, 3 for a whole cluster that was deleted.
CREATE TABLE changes (
    account integer  NOT NULL,
    pos     bigint   NOT NULL,
    cluster integer  NOT NULL,
    kind    integer  NOT NULL, -- 0 for a cluster
    op      smallint NOT NULL,
    at      timestamptz,
    gen     bigint   NOT NULL,
    seq     bigint   NOT NULL,
    ns      text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    PRIMARY KEY (account, pos)
);

-- What happened and does not become something else: Falco's alerts, Kubernetes
-- events. ident makes an event unique in its kind for as long as it is kept.
CREATE TABLE events (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account integer NOT NULL,
    kind    integer NOT NULL,
    at      timestamptz NOT NULL,
    ident   bytea   NOT NULL,
    ns      text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    uid     text    NOT NULL,
    rv      text    NOT NULL,
    body_ok boolean NOT NULL,
    body    json,
    raw     bytea
);
CREATE UNIQUE INDEX events_ident ON events (kind, ident);
CREATE INDEX events_time ON events (account, at, id);

-- hash is the SHA-256 of the secret, which is stored nowhere.
CREATE TABLE access_keys (
    hash       bytea PRIMARY KEY,
    account    text NOT NULL,
    cluster    text NOT NULL, -- empty: all clusters of the account
    created    timestamptz,
    revoked_at timestamptz
);

CREATE TABLE api_tokens (
    hash       bytea PRIMARY KEY,
    account    text NOT NULL, -- empty: all accounts
    cluster    text NOT NULL,
    scope      text NOT NULL,
    created    timestamptz,
    revoked_at timestamptz
);

-- lz4 costs less than the built-in compression; not every server has it.
-- +goose StatementBegin
DO $$
BEGIN
    ALTER TABLE objects ALTER COLUMN body SET COMPRESSION lz4;
    ALTER TABLE events ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    NULL;
END
$$;
-- +goose StatementEnd
