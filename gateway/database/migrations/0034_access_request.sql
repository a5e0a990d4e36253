-- Who asks for access to a table, and what became of it. What is granted is a policy with a validity, in
-- `ranger_object`: these rows decide nothing.
CREATE TABLE sluice.access_request (
    id               bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind             text        NOT NULL CHECK (kind IN ('access', 'break_glass')),
    state            text        NOT NULL DEFAULT 'open'
                     CHECK (state IN ('open', 'granted', 'refused', 'withdrawn', 'elsewhere', 'ended')),
    asked_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    asker            text        NOT NULL,
    -- Name and id in the user file: a later user of the name is somebody else.
    asker_identity   text        NOT NULL,
    catalog          text        NOT NULL,
    database         text        NOT NULL,
    table_name       text        NOT NULL,
    columns          text[]      NOT NULL,
    accesses         text[]      NOT NULL,
    until            timestamptz NOT NULL,
    reason           text        NOT NULL,
    purpose          text        NOT NULL DEFAULT '',
    -- Audit id of the refusal that it came from; empty for none.
    event            text        NOT NULL DEFAULT '',
    decided_at       timestamptz,
    decided_by       text        NOT NULL DEFAULT '',
    decision_reason  text        NOT NULL DEFAULT '',
    -- When the grant ends; `until` or earlier.
    expires          timestamptz,
    service          text        NOT NULL DEFAULT '',
    -- Guids of the policies that were made.
    policies         text[]      NOT NULL DEFAULT '{}'
);

CREATE INDEX access_request_asker ON sluice.access_request (asker, id);
CREATE INDEX access_request_state ON sluice.access_request (state, id);
CREATE INDEX access_request_purpose ON sluice.access_request (purpose, id) WHERE purpose <> '';

-- Each step, for good.
CREATE TABLE sluice.access_request_step (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    request bigint      NOT NULL REFERENCES sluice.access_request,
    time    timestamptz NOT NULL DEFAULT clock_timestamp(),
    who     text        NOT NULL,
    step    text        NOT NULL,
    reason  text        NOT NULL DEFAULT ''
);

CREATE INDEX access_request_step_request ON sluice.access_request_step (request, id);

CREATE FUNCTION sluice.refuse_step_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'sluice.access_request_step is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON sluice.access_request_step
    FOR EACH ROW EXECUTE FUNCTION sluice.refuse_step_change();
