-- What a job has seen of the record is told by places in chains, which no clock sets back: a place is given, and
-- the chain moved on, in the transaction that stores the event.

-- How far the roll-ups have come in the chain of each gateway.
CREATE TABLE sluice.rollup_chain (
    gateway text   PRIMARY KEY,
    seen    bigint NOT NULL
);

-- `archive_chain` says it: what has a later place than its last of a day and gateway came since. Older gateways
-- look at all days that a newer one has archived.
ALTER TABLE sluice.archive_day ALTER COLUMN as_of SET DEFAULT '-infinity';
