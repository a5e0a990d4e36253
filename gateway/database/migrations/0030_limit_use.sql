-- What users have used of budgets of an hour or a day, as each run of a gateway has counted it.
CREATE TABLE sluice.limit_use (
    run uuid NOT NULL,
    limit_name text NOT NULL,
    subject text NOT NULL,
    measure text NOT NULL,
    start bigint NOT NULL,
    used double precision NOT NULL,
    PRIMARY KEY (limit_name, subject, measure, start, run)
);
CREATE INDEX limit_use_start ON sluice.limit_use (start);
