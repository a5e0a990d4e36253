-- Files that became tables: what was found out when they were first named.
CREATE TABLE sluice.dataset (
    source      text        NOT NULL,
    path        text        NOT NULL,
    -- The table on Spark, in Spark's session catalog; lower case.
    database    text        NOT NULL,
    table_name  text        NOT NULL,
    url         text        NOT NULL,
    format      text        NOT NULL,
    -- An object of texts: the options that Spark reads the files with.
    options     jsonb       NOT NULL,
    -- A list of objects with `name` and `type`: the columns as Spark found them.
    columns     jsonb       NOT NULL,
    files       bigint      NOT NULL,
    bytes       bigint      NOT NULL,
    -- A digest of the files' paths, sizes and times: another one says that they have changed.
    signature   text        NOT NULL,
    promoted_at timestamptz NOT NULL DEFAULT now(),
    promoted_by text        NOT NULL,
    PRIMARY KEY (source, path),
    UNIQUE (database, table_name)
);

COMMENT ON TABLE sluice.dataset IS 'Files that became tables when they were first named';
