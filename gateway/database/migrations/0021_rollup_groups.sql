-- Refused and slow statements by group, and by the tables that they read; empty in what an older version wrote.
ALTER TABLE sluice.rollup_refusal ADD COLUMN groups text[] NOT NULL DEFAULT '{}';
ALTER TABLE sluice.rollup_statement ADD COLUMN groups text[] NOT NULL DEFAULT '{}';
ALTER TABLE sluice.rollup_statement ADD COLUMN tables text[] NOT NULL DEFAULT '{}';

-- Hours that a run has left as they were, because the archive has lost events of theirs: due once it has them.
CREATE TABLE sluice.rollup_left (
    hour timestamptz PRIMARY KEY
);
