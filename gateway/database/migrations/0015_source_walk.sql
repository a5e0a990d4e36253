-- How far the walk of a source of files has come, by all gateways together.
CREATE TABLE sluice.source_walk (
    source    text        PRIMARY KEY,
    -- The path that was looked at last; empty: the next round begins anew.
    reached   text        NOT NULL,
    began_at  timestamptz NOT NULL,
    walked_at timestamptz NOT NULL,
    -- Directories that are no tables and could be, when it was looked last.
    found     bigint      NOT NULL DEFAULT 0,
    -- Why the last round could not look, or what it could not look at; empty: nothing.
    trouble   text        NOT NULL DEFAULT ''
);

-- Directories with files in them, and files in the root itself, that a walk has seen. Not all are tables.
CREATE TABLE sluice.found_directory (
    source       text        NOT NULL,
    path         text        NOT NULL,
    files        bigint      NOT NULL,
    -- The table format that keeps it; empty: none.
    table_format text        NOT NULL,
    seen_at      timestamptz NOT NULL,
    PRIMARY KEY (source, path)
);

COMMENT ON TABLE sluice.source_walk IS 'How far walks of sources of files have come';
COMMENT ON TABLE sluice.found_directory IS 'Directories with files in them that walks of sources have seen';
