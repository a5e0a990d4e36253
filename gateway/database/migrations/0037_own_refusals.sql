-- One's own last refused statements, which the console shows first: without going through all that somebody
-- asked for who was hardly ever refused, nor through everybody's refusals.
CREATE INDEX audit_event_refused ON sluice.audit_event (user_name, time) WHERE verdict = 'refused';
