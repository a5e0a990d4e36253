-- Replays: statements of a period judged once more under other policies.

CREATE TABLE sluice.replay (
    run         bigint      PRIMARY KEY REFERENCES sluice.job_run,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Where the policies were read.
    old         text        NOT NULL,
    new         text        NOT NULL,
    -- `was`: names stood for what the record says; `now`: for what they stand for now.
    catalog     text        NOT NULL CHECK (catalog IN ('was', 'now')),
    range_from  timestamptz NOT NULL,
    range_to    timestamptz NOT NULL,
    statements  bigint      NOT NULL,
    -- Of these: judged under both; those that asked nothing of policies; those that could not be judged.
    judged      bigint      NOT NULL,
    asked_nothing bigint    NOT NULL,
    unjudged    bigint      NOT NULL,
    -- Of those that were judged: with another verdict, or other masks or filters, under the new policies.
    changed     bigint      NOT NULL,
    -- And with another verdict under the old ones than when they were sent.
    decided_otherwise bigint NOT NULL
);

-- What is otherwise, by user, table and column; those with most statements.
CREATE TABLE sluice.replay_change (
    run         bigint NOT NULL REFERENCES sluice.replay ON DELETE CASCADE,
    kind        text   NOT NULL CHECK (kind IN ('lost', 'gained', 'mask', 'filter')),
    user_name   text   NOT NULL,
    -- Dotted; of anything else than tables and databases with its level in front.
    resource    text   NOT NULL,
    column_name text   NOT NULL,
    before      text   NOT NULL,
    after       text   NOT NULL,
    statements  bigint NOT NULL,
    -- Some statements without their literals, and their ids, in the same order.
    fingerprints text[] NOT NULL,
    examples    uuid[] NOT NULL
);
CREATE INDEX replay_change_run ON sluice.replay_change (run);

-- Why statements could not be judged.
CREATE TABLE sluice.replay_unjudged (
    run         bigint NOT NULL REFERENCES sluice.replay ON DELETE CASCADE,
    reason      text   NOT NULL,
    statements  bigint NOT NULL,
    example     uuid   NOT NULL,
    PRIMARY KEY (run, reason)
);
