-- Whether a run did all that one of the schedule does, and not a period or policies that somebody chose.
ALTER TABLE sluice.job_run ADD COLUMN whole boolean NOT NULL DEFAULT true;
