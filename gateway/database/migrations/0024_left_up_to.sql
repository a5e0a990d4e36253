-- Up to which erasure `left_erasures` was told. Jobs of before 0023, and those of gateways that are older, write
-- `erasure` and not what they left: what is behind is carried out once more.
ALTER TABLE sluice.archive_day ADD COLUMN left_up_to bigint NOT NULL DEFAULT 0;
