-- Which Spark has a session of Spark Connect: who inserts the row first has bound it, for all gateways.
CREATE TABLE sluice.connect_session (
    user_name text NOT NULL,
    session_id text NOT NULL,
    backend text NOT NULL,
    is_open boolean NOT NULL DEFAULT false,
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_name, session_id)
);
