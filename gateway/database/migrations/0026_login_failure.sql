-- Failed logins that all gateways count together; a key is a hash of an address or of a user's name.
CREATE TABLE sluice.login_failure (
    key bytea PRIMARY KEY,
    since timestamptz NOT NULL,
    failures integer NOT NULL,
    blocks integer NOT NULL,
    blocked_until timestamptz NOT NULL
);
CREATE INDEX login_failure_since ON sluice.login_failure (since);
