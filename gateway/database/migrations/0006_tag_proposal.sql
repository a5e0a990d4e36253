-- Tags that travel along column lineage: what is proposed, and what administrators decided.

-- Which aggregate functions were all of the value in finished statements; `-` where something else was, and
-- of what older gateways bring.
ALTER TABLE sluice.lineage_edge ADD COLUMN aggregates text[] NOT NULL DEFAULT '{-}';
-- The transaction that last changed what the edge means: a reader asks for those that it cannot have seen.
ALTER TABLE sluice.lineage_edge ADD COLUMN changed_in xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX lineage_edge_changed ON sluice.lineage_edge (changed_in);

CREATE TABLE sluice.tag_proposal (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Names, no references: a decision holds for the column of that name, whatever becomes of the graph.
    catalog     text        NOT NULL,
    database    text        NOT NULL,
    table_name  text        NOT NULL,
    -- `*` for all columns.
    column_name text        NOT NULL,
    tag         text        NOT NULL,
    -- A list of objects: the tag's attributes, each set of them once.
    attributes  jsonb       NOT NULL,
    state       text        NOT NULL CHECK (state IN ('proposed', 'accepted', 'rejected')),
    -- Whether a rule wants somebody to look: then it is never accepted by itself.
    asks        boolean     NOT NULL,
    -- A list of objects: where the tag comes from now, by which steps; empty when that is gone.
    origins     jsonb       NOT NULL,
    -- Source columns that a rejection has seen, and how their values came.
    judged      text[]      NOT NULL DEFAULT '{}',
    proposed_at timestamptz NOT NULL DEFAULT now(),
    decided_at  timestamptz,
    decided_by  text        NOT NULL DEFAULT '',
    UNIQUE (catalog, database, table_name, column_name, tag)
);

CREATE INDEX tag_proposal_state ON sluice.tag_proposal (state, id);

-- Every decision, also those that were taken back.
CREATE TABLE sluice.tag_decision (
    proposal  bigint      NOT NULL REFERENCES sluice.tag_proposal ON DELETE CASCADE,
    time      timestamptz NOT NULL DEFAULT now(),
    user_name text        NOT NULL,
    state     text        NOT NULL,
    PRIMARY KEY (proposal, time)
);

-- One row: who changes proposals holds it, so that its numbers count what others have seen.
CREATE TABLE sluice.tag_state (
    only_one   boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    -- Goes up when what is accepted changes.
    accepted   bigint      NOT NULL DEFAULT 0,
    -- Goes up with every decision.
    decisions  bigint      NOT NULL DEFAULT 0,
    -- What the last look at the graph knew: every edge changed before this transaction, those decisions,
    -- and tags and rules by their digest.
    edges      xid8        NOT NULL DEFAULT '0',
    decided    bigint      NOT NULL DEFAULT -1,
    basis      text        NOT NULL DEFAULT '',
    looked_at  timestamptz NOT NULL DEFAULT '-infinity'
);

INSERT INTO sluice.tag_state DEFAULT VALUES;

COMMENT ON TABLE sluice.tag_proposal IS 'Tags that columns would get from what flows into them, and what was decided';
