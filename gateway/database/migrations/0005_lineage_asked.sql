-- What is asked of the graph by people who may not know of all that is in it.

-- Of a query's result and of a temporary view: the user whose it is. NULL: it is nobody's own.
ALTER TABLE sluice.lineage_dataset ADD COLUMN user_name text;

-- All edges that a statement brought, and every dataset that it is about. Empty where nobody wrote them down.
ALTER TABLE sluice.lineage_statement
    ADD COLUMN edges    bigint[] NOT NULL DEFAULT '{}',
    ADD COLUMN datasets bigint[] NOT NULL DEFAULT '{}';

-- A name is written from its end.
CREATE INDEX lineage_column_name ON sluice.lineage_column (name);

-- Counting an edge again leaves its page as full as it is.
ALTER TABLE sluice.lineage_edge SET (fillfactor = 80);
