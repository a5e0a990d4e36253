-- Whether a partition had rows when it was written: one of a catalog's table that has none any more was removed.
-- NULL is of an older version, which did not say so.
ALTER TABLE sluice.job_partition ADD COLUMN filled boolean;
