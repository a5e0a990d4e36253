-- When a dataset's files were last looked at, and what was found that its table does not have; empty: nothing.
ALTER TABLE sluice.dataset ADD COLUMN looked_at timestamptz NOT NULL DEFAULT now();
ALTER TABLE sluice.dataset ADD COLUMN finding text NOT NULL DEFAULT '';
