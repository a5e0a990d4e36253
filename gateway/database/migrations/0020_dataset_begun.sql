-- Promotions that began and have not ended: written before Spark is asked for the table, gone with the one that
-- is saved. What is left here was cut, and Spark may have its table, now or later.
CREATE TABLE sluice.dataset_begun (
    source     text        NOT NULL,
    path       text        NOT NULL,
    -- The table on Spark, in Spark's session catalog; lower case.
    database   text        NOT NULL,
    table_name text        NOT NULL,
    url        text        NOT NULL,
    begun_at   timestamptz NOT NULL DEFAULT now(),
    begun_by   text        NOT NULL,
    PRIMARY KEY (database, table_name)
);

COMMENT ON TABLE sluice.dataset_begun IS 'Promotions of files that began and have not ended';
