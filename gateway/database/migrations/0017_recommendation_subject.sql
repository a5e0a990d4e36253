-- What a recommendation is about may be longer than an index takes: a table's name, or all whom a grant is for.
-- One run at a time writes them, which holds the job's lock.
ALTER TABLE sluice.recommendation DROP CONSTRAINT recommendation_kind_subject_key;
