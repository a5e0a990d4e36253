-- Classification: why columns are proposed tags by what is in them, and which tables were looked at.

-- A list of objects: which rule, where, how many values were sampled and hit. Never a value. Empty for what
-- lineage alone proposes.
ALTER TABLE sluice.tag_proposal ADD COLUMN evidence jsonb NOT NULL DEFAULT '[]';

CREATE TABLE sluice.classified_table (
    catalog       text        NOT NULL,
    database      text        NOT NULL,
    table_name    text        NOT NULL,
    state         text        NOT NULL CHECK (state IN ('classified', 'unreadable', 'view')),
    -- A digest of what the table was then, and of the rules; while it is the same there is nothing to do.
    signature     text        NOT NULL,
    columns       bigint      NOT NULL DEFAULT 0,
    -- Of these, columns that the classifier may not read.
    unreadable    bigint      NOT NULL DEFAULT 0,
    rows          bigint      NOT NULL DEFAULT 0,
    bytes         bigint      NOT NULL DEFAULT 0,
    reason        text        NOT NULL DEFAULT '',
    run           bigint      NOT NULL REFERENCES sluice.job_run,
    classified_at timestamptz NOT NULL,
    PRIMARY KEY (catalog, database, table_name)
);

-- Where a column is no longer what was decided of it; brought up to date with each look at its table.
CREATE TABLE sluice.classification_drift (
    catalog     text        NOT NULL,
    database    text        NOT NULL,
    table_name  text        NOT NULL,
    column_name text        NOT NULL,
    tag         text        NOT NULL,
    -- `no_longer_fits`: an accepted tag; `new_class`: a class that the decision has not seen.
    kind        text        NOT NULL CHECK (kind IN ('no_longer_fits', 'new_class')),
    -- The class of the rules; empty with `no_longer_fits`.
    rule        text        NOT NULL,
    evidence    jsonb       NOT NULL,
    found_at    timestamptz NOT NULL,
    PRIMARY KEY (catalog, database, table_name, column_name, tag, kind, rule)
);

COMMENT ON TABLE sluice.classified_table IS 'Tables whose columns were classified by samples';
COMMENT ON TABLE sluice.classification_drift IS 'Columns that are no longer what was decided of their tags';
