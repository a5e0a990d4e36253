-- Sessions that no gateway has spoken of for long are found by when one did.
CREATE INDEX connect_session_seen ON sluice.connect_session (seen_at);
