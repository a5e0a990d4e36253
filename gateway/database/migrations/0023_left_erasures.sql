-- Erasures up to `erasure` that would take texts of the day and were not carried out: no key of the settings has
-- signed them. With its key they may be, later.
ALTER TABLE sluice.archive_day ADD COLUMN left_erasures bigint[] NOT NULL DEFAULT '{}';
