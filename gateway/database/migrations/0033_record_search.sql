-- What people search the record by, besides what has an index already: the policies that decided, and verdicts
-- that are rare among the others.
CREATE INDEX audit_event_policies ON sluice.audit_event USING gin (policies);
CREATE INDEX audit_event_verdict ON sluice.audit_event (verdict, time) WHERE verdict IS NOT NULL;
