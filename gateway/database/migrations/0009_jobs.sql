-- Jobs that run on Spark: what ran, how far each has come, and what the archive of the record holds.

CREATE TABLE sluice.job_run (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job         text        NOT NULL,
    version     integer     NOT NULL,
    -- A run that is `running` while nobody holds the job's lock was killed; the next run says so.
    state       text        NOT NULL CHECK (state IN ('running', 'done', 'failed', 'killed')),
    -- Machine and process.
    runner      text        NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    -- Times of the events that it read, the second exclusive; null where it read none.
    range_from  timestamptz,
    range_to    timestamptz,
    rows_in     bigint      NOT NULL DEFAULT 0,
    rows_out    bigint      NOT NULL DEFAULT 0,
    seconds     double precision,
    -- Spark's id of the application; empty where Spark was not needed.
    application text        NOT NULL DEFAULT '',
    error       text        NOT NULL DEFAULT ''
);
CREATE INDEX job_run_job ON sluice.job_run (job, id);

-- How far each job has come, written in the transaction that ends its run.
CREATE TABLE sluice.job_watermark (
    job       text        PRIMARY KEY,
    -- Of the job: another version begins anew.
    version   integer     NOT NULL,
    watermark timestamptz NOT NULL,
    run       bigint      NOT NULL REFERENCES sluice.job_run,
    saved_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Which run wrote each partition of the tables in the lake: files of any other run are a killed one's.
CREATE TABLE sluice.job_partition (
    table_name text   NOT NULL,
    partition  text   NOT NULL,
    run        bigint NOT NULL REFERENCES sluice.job_run,
    PRIMARY KEY (table_name, partition)
);

-- Days of the record that are in the lake.
CREATE TABLE sluice.archive_day (
    day         date        PRIMARY KEY,
    version     integer     NOT NULL,
    events      bigint      NOT NULL,
    -- Of these, events that are in no chain.
    unchained   bigint      NOT NULL,
    -- Sums, modulo 2^256, of the links of its events and of their digests, in hexadecimal.
    links       text        NOT NULL,
    digests     text        NOT NULL,
    -- Everything that was stored before this is in it.
    as_of       timestamptz NOT NULL,
    -- The last erasure that it knows of; 0: none.
    erasure     bigint      NOT NULL,
    bytes       bigint      NOT NULL,
    -- When its files were read again and were what PostgreSQL has.
    verified_at timestamptz NOT NULL,
    -- When its partition went from PostgreSQL; null while events of it are there, too.
    dropped_at  timestamptz,
    -- The same four of what PostgreSQL has no more; late events may be there all the same.
    dropped_events    bigint NOT NULL DEFAULT 0,
    dropped_unchained bigint NOT NULL DEFAULT 0,
    dropped_links     text   NOT NULL DEFAULT '0',
    dropped_digests   text   NOT NULL DEFAULT '0'
);

-- Where the chains of the gateways are in these days.
CREATE TABLE sluice.archive_chain (
    day     date   NOT NULL REFERENCES sluice.archive_day ON DELETE CASCADE,
    gateway text   NOT NULL,
    first   bigint NOT NULL,
    last    bigint NOT NULL,
    PRIMARY KEY (day, gateway)
);

-- Summaries of the record by day (UTC), of what stands by hour in the lake.
CREATE TABLE sluice.rollup_usage (
    day         date        NOT NULL,
    user_name   text        NOT NULL,
    groups      text[]      NOT NULL,
    -- Dotted.
    table_name  text        NOT NULL,
    -- `*` where it is not known which were used.
    column_name text        NOT NULL,
    endpoint    text        NOT NULL,
    tool        text        NOT NULL,
    -- `TYPE policy` of each mask of the column; names of the policies that filtered the table.
    masks       text[]      NOT NULL,
    filters     text[]      NOT NULL,
    statements  bigint      NOT NULL,
    finished    bigint      NOT NULL,
    -- Of the statements, which may have read other tables, too.
    rows        bigint      NOT NULL,
    bytes       bigint      NOT NULL,
    first_at    timestamptz NOT NULL,
    last_at     timestamptz NOT NULL
);
CREATE INDEX rollup_usage_day ON sluice.rollup_usage (day);
CREATE INDEX rollup_usage_user ON sluice.rollup_usage (user_name, day);
CREATE INDEX rollup_usage_table ON sluice.rollup_usage (table_name, day);

CREATE TABLE sluice.rollup_refusal (
    day       date        NOT NULL,
    user_name text        NOT NULL,
    code      text        NOT NULL,
    resource  text        NOT NULL,
    action    text        NOT NULL,
    policy    text        NOT NULL,
    endpoint  text        NOT NULL,
    tool      text        NOT NULL,
    attempts  bigint      NOT NULL,
    first_at  timestamptz NOT NULL,
    last_at   timestamptz NOT NULL
);
CREATE INDEX rollup_refusal_day ON sluice.rollup_refusal (day);
CREATE INDEX rollup_refusal_user ON sluice.rollup_refusal (user_name, day);

CREATE TABLE sluice.rollup_statement (
    day               date             NOT NULL,
    -- The statement without its literals; empty where its text is not there.
    fingerprint       text             NOT NULL,
    user_name         text             NOT NULL,
    statements        bigint           NOT NULL,
    finished          bigint           NOT NULL,
    rows              bigint           NOT NULL,
    bytes             bigint           NOT NULL,
    judge_ms          double precision NOT NULL,
    run_ms            double precision NOT NULL,
    slowest_ms        double precision NOT NULL,
    slowest_statement text             NOT NULL
);
CREATE INDEX rollup_statement_day ON sluice.rollup_statement (day);
CREATE INDEX rollup_statement_user ON sluice.rollup_statement (user_name, day);

CREATE TABLE sluice.rollup_latency (
    hour       timestamptz      NOT NULL,
    -- `all`, `user`, `group`, `table`, `tag`.
    dimension  text             NOT NULL,
    name       text             NOT NULL,
    -- `judge`: the gateway's own; `run`: from the verdict to the end, by Spark and on the way to the client.
    phase      text             NOT NULL,
    statements bigint           NOT NULL,
    total_ms   double precision NOT NULL,
    max_ms     double precision NOT NULL,
    -- An object: how many took less than 2^(key/8) milliseconds and not less than 2^((key-1)/8).
    buckets    jsonb            NOT NULL
);
CREATE INDEX rollup_latency_hour ON sluice.rollup_latency (hour);

COMMENT ON TABLE sluice.job_run IS 'Runs of jobs on Spark';
COMMENT ON TABLE sluice.archive_day IS 'Days of the record that are in the lake';
