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

-- Proofs: statements of the record run twice, as the gateway forwards them and over tables that were filtered and
-- masked before.
CREATE TABLE sluice.proof (
    run         bigint      PRIMARY KEY REFERENCES sluice.job_run,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Statements that were chosen; of these, those that gave the same rows both ways, and other ones.
    statements  bigint      NOT NULL,
    proved      bigint      NOT NULL,
    different   bigint      NOT NULL,
    -- Of those that were proved: over tables that have a filter, a mask or a hidden column for their user.
    obliged     bigint      NOT NULL
);

CREATE TABLE sluice.proof_left_out (
    run         bigint NOT NULL REFERENCES sluice.proof ON DELETE CASCADE,
    reason      text   NOT NULL,
    statements  bigint NOT NULL,
    example     uuid   NOT NULL,
    PRIMARY KEY (run, reason)
);

-- Statements that showed somebody something else than the policies say.
CREATE TABLE sluice.proof_alarm (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run          bigint      NOT NULL REFERENCES sluice.job_run,
    found_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    statement_id uuid        NOT NULL,
    user_name    text        NOT NULL,
    -- Without its literals.
    fingerprint  text        NOT NULL,
    tables       text[]      NOT NULL,
    -- Rows that only the gateway's way has, and only the other; null where that way failed.
    only_governed bigint,
    only_copied   bigint,
    what         text        NOT NULL
);
