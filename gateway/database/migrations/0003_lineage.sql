-- Who feeds what. A column of a table, of a view, of what a query answered; and edges from column to column.
-- Nothing here says what a statement was allowed to do: that stands in the audit record, by statement id.
CREATE TABLE sluice.lineage_dataset (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Lower case, parts joined by dots: catalog.database.table; a path; result:… and session:… are made names.
    name       text        NOT NULL UNIQUE,
    kind       text        NOT NULL,
    parts      text[]      NOT NULL,
    first_seen timestamptz NOT NULL,
    last_seen  timestamptz NOT NULL
);

CREATE TABLE sluice.lineage_column (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset bigint NOT NULL REFERENCES sluice.lineage_dataset ON DELETE CASCADE,
    -- `*` stands for all columns: of a target whose rows are decided on, of a statement nobody could read.
    name    text   NOT NULL,
    UNIQUE (dataset, name)
);

CREATE TABLE sluice.lineage_edge (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source         bigint      NOT NULL REFERENCES sluice.lineage_column ON DELETE CASCADE,
    target         bigint      NOT NULL REFERENCES sluice.lineage_column ON DELETE CASCADE,
    subtype        text        NOT NULL,
    -- Whether a mask of a policy stood between.
    masking        boolean     NOT NULL,
    -- The value or the condition, in the words of the last statement.
    expression     text        NOT NULL,
    statements     bigint      NOT NULL,
    -- Whether any of these statements really finished.
    finished       boolean     NOT NULL,
    first_seen     timestamptz NOT NULL,
    last_seen      timestamptz NOT NULL,
    last_statement uuid        NOT NULL,
    UNIQUE (target, source, subtype, masking)
);

CREATE INDEX lineage_edge_source ON sluice.lineage_edge (source);

-- Which statements are in the graph, so that each counts once however often it is brought.
CREATE TABLE sluice.lineage_statement (
    id          uuid        PRIMARY KEY,
    time        timestamptz NOT NULL,
    user_name   text        NOT NULL,
    operation   text        NOT NULL,
    -- `finished`, `failed`, `cancelled`, …, as the record has it; `imported` for scripts that nobody ran.
    outcome     text        NOT NULL,
    -- Why it has no edges between columns; empty when they are known.
    table_level text        NOT NULL DEFAULT ''
);

CREATE INDEX lineage_statement_time ON sluice.lineage_statement (time);

COMMENT ON TABLE sluice.lineage_edge IS 'Column lineage; an edge stands once, with how often and when it was seen';
