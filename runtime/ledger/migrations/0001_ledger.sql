-- What happened, in order. data holds the very bytes that were hashed. id is
-- the order of recording over all runs; (run_id, seq) is the order that counts.
CREATE TABLE events (
    id        INTEGER PRIMARY KEY,
    run_id    TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    time_ns   INTEGER NOT NULL,
    call_id   TEXT    NOT NULL,
    trace     TEXT    NOT NULL,
    data      BLOB    NOT NULL,
    prev_hash BLOB    NOT NULL,
    hash      BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_run ON events (run_id, seq);

CREATE TRIGGER events_no_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- A run as it is now. doc is its JSON; the columns beside it are for queries.
CREATE TABLE runs (
    id     INTEGER PRIMARY KEY,
    run_id TEXT    NOT NULL UNIQUE,
    tenant TEXT    NOT NULL,
    state  TEXT    NOT NULL,
    status TEXT    NOT NULL,
    open   INTEGER NOT NULL,
    doc    BLOB    NOT NULL
) STRICT;
CREATE INDEX runs_by_tenant ON runs (tenant);
CREATE INDEX runs_open ON runs (id) WHERE open = 1;

CREATE TABLE run_labels (
    key    TEXT NOT NULL,
    value  TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (key, value, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_labels_by_run ON run_labels (run_id);

-- What changes with every group: the chain's end and the run's usage. Apart
-- from runs, because this row is small and that one may be large.
CREATE TABLE run_heads (
    run_id       TEXT    NOT NULL PRIMARY KEY,
    seq          INTEGER NOT NULL,
    hash         BLOB    NOT NULL,
    calls        INTEGER NOT NULL,
    failed_calls INTEGER NOT NULL,
    output_bytes INTEGER NOT NULL,
    cpu_ms       INTEGER NOT NULL,
    wall_ms      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A call as it is now. request_seq and result_seq are its first and last event.
CREATE TABLE calls (
    id                  INTEGER PRIMARY KEY,
    call_id             TEXT    NOT NULL UNIQUE,
    run_id              TEXT    NOT NULL,
    step_id             TEXT    NOT NULL,
    parent_call_id      TEXT    NOT NULL,
    tool_name           TEXT    NOT NULL,
    tool_version        TEXT    NOT NULL,
    arguments           BLOB    NOT NULL,
    effective_arguments BLOB,
    arguments_hash      TEXT    NOT NULL,
    idempotency_key     TEXT    NOT NULL,
    requested_ns        INTEGER NOT NULL,
    requested_by        TEXT    NOT NULL,
    trace               TEXT    NOT NULL,
    state               TEXT    NOT NULL,
    started             INTEGER NOT NULL,
    bound               INTEGER NOT NULL,
    decision            BLOB,
    result              BLOB,
    request_seq         INTEGER NOT NULL,
    result_seq          INTEGER
) STRICT;
CREATE INDEX calls_by_run ON calls (run_id);
CREATE INDEX calls_open ON calls (id) WHERE state <> 'DONE';
-- One call holds a key at a time: the rule is the database's, not only ours.
CREATE UNIQUE INDEX calls_by_key ON calls (run_id, tool_name, idempotency_key) WHERE bound = 1;

CREATE TABLE artifacts (
    id          INTEGER PRIMARY KEY,
    artifact_id TEXT    NOT NULL UNIQUE,
    run_id      TEXT    NOT NULL,
    call_id     TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    bytes       INTEGER NOT NULL,
    sha256      TEXT    NOT NULL,
    description TEXT    NOT NULL,
    created_ns  INTEGER NOT NULL
) STRICT;
CREATE INDEX artifacts_by_run ON artifacts (run_id);
