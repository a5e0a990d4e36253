-- Sessions of the web console, of all gateways. The key is the SHA-256 of what the browser's cookie holds.
CREATE TABLE sluice.console_session (
    key bytea PRIMARY KEY,
    user_name text NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    ends_at timestamptz NOT NULL,
    body jsonb NOT NULL
);
CREATE INDEX console_session_user ON sluice.console_session (user_name, opened_at);
CREATE INDEX console_session_ends ON sluice.console_session (ends_at);
