-- What verifying the record on Spark has come to.

CREATE TABLE sluice.verification (
    run         bigint      PRIMARY KEY REFERENCES sluice.job_run,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Time that it was about; null: from the beginning, to the end.
    range_from  timestamptz,
    range_to    timestamptz,
    events      bigint      NOT NULL,
    gateways    bigint      NOT NULL,
    seals       bigint      NOT NULL,
    -- Whether there was a key to hold the seals to.
    signatures_checked boolean NOT NULL,
    before_chain bigint     NOT NULL,
    -- 0: the record holds.
    findings    bigint      NOT NULL
);

CREATE TABLE sluice.verification_finding (
    run         bigint NOT NULL REFERENCES sluice.verification ON DELETE CASCADE,
    kind        text   NOT NULL,
    place       text   NOT NULL,
    gateway     text   NOT NULL,
    -- Positions in the gateway's chain; 0 where it is about none.
    first       bigint NOT NULL,
    last        bigint NOT NULL,
    event_id    text   NOT NULL
);
CREATE INDEX verification_finding_run ON sluice.verification_finding (run);
