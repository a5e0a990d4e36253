-- The chain over the record: what binds each event to the one of the same gateway before it, and seals over all.

-- Null in events that came before this, or from a gateway that is older.
ALTER TABLE sluice.audit_event ADD COLUMN chain_position bigint;
ALTER TABLE sluice.audit_event ADD COLUMN link bytea;
-- Digests of values that were erased, by column, and `body.` before keys of the body.
ALTER TABLE sluice.audit_event ADD COLUMN erased jsonb;
CREATE INDEX audit_event_chain ON sluice.audit_event (gateway, chain_position) WHERE chain_position IS NOT NULL;

-- The last link of each gateway's chain.
CREATE TABLE sluice.audit_chain (
    gateway        text   PRIMARY KEY,
    chain_position bigint NOT NULL,
    link           bytea  NOT NULL
);

-- How many events are older than the chain.
CREATE TABLE sluice.audit_before_chain AS SELECT now() AS began, count(*) AS events FROM sluice.audit_event;

-- Texts of a person's statements may be erased; nothing else of an event ever changes.
CREATE OR REPLACE FUNCTION sluice.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND current_setting('sluice.erasing', true) = 'on' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'sluice.audit_event is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TABLE sluice.audit_erasure (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time      timestamptz NOT NULL DEFAULT now(),
    by_user   text        NOT NULL,
    user_name text        NOT NULL,
    until     timestamptz NOT NULL,
    reason    text        NOT NULL,
    events    bigint      NOT NULL
);

CREATE TABLE sluice.audit_seal (
    number    bigint      PRIMARY KEY,
    made_at   timestamptz NOT NULL,
    -- The whole seal as it was signed, with its signature; see docs/audit.md.
    content   text        NOT NULL
);

CREATE FUNCTION sluice.refuse_seal_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'sluice.audit_seal is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON sluice.audit_seal
    FOR EACH ROW EXECUTE FUNCTION sluice.refuse_seal_change();

COMMENT ON TABLE sluice.audit_seal IS 'Signed heads of all chains; append-only';
