-- Statements of the audit record whose lineage is still to be made. A row comes in the transaction that brings
-- the decision into the record, and goes when the graph has the statement's lineage.
CREATE TABLE sluice.lineage_queue (
    statement_id uuid        PRIMARY KEY,
    decided_at   timestamptz NOT NULL,
    gateway      text        NOT NULL,
    -- When the record got the statement's end, by the database's clock; null while it runs.
    ready_at     timestamptz,
    attempts     smallint    NOT NULL DEFAULT 0,
    -- After an attempt that failed: when the next one is due.
    retry_at     timestamptz
);

CREATE INDEX lineage_queue_ready ON sluice.lineage_queue (gateway, ready_at) WHERE ready_at IS NOT NULL;

COMMENT ON TABLE sluice.lineage_queue IS 'Recorded statements whose lineage is still to be made';
