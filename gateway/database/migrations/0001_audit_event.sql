-- One row per audit event, by day. Rows are only ever added; old days go by dropping their partition.
CREATE TABLE sluice.audit_event (
    event_id          uuid        NOT NULL,
    time              timestamptz NOT NULL,
    kind              text        NOT NULL,
    statement_id      uuid,
    gateway           text        NOT NULL,
    user_name         text        NOT NULL,
    groups            text[],
    roles             text[],
    client_address    text,
    client_protocol   text,
    application       text,
    session_id        text,
    verdict           text,
    code              text,
    message           text,
    plan_class        text,
    resources         text[],
    policies          text[],
    statement         text,
    statement_sha256  bytea,
    forwarded         text,
    forwarded_sha256  bytea,
    readers_agree     boolean,
    snapshot          text,
    backend_operation text,
    rows              bigint,
    bytes             bigint,
    duration_ms       double precision,
    outcome           text,
    error             text,
    body              jsonb       NOT NULL,
    -- The spool's own bytes, only where PostgreSQL cannot hold the record exactly as it was (NUL and lone
    -- surrogates in text, values that it refuses).
    original_record   bytea,
    -- When the row came here; `time` is the gateway's clock.
    stored_at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, time)
) PARTITION BY RANGE (time);

CREATE INDEX audit_event_time ON sluice.audit_event (time);
CREATE INDEX audit_event_statement ON sluice.audit_event (statement_id);
CREATE INDEX audit_event_user ON sluice.audit_event (user_name, time);
CREATE INDEX audit_event_stored ON sluice.audit_event USING brin (stored_at);
CREATE INDEX audit_event_resources ON sluice.audit_event USING gin (resources);

COMMENT ON TABLE sluice.audit_event IS 'Audit events of all gateways; append-only';

CREATE FUNCTION sluice.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'sluice.audit_event is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON sluice.audit_event
    FOR EACH ROW EXECUTE FUNCTION sluice.refuse_change();

-- Each statement with what became of it. `ended` is null while it runs, and for refused statements.
CREATE VIEW sluice.audit_statement AS
SELECT d.event_id,
       d.time,
       d.statement_id,
       d.gateway,
       d.user_name,
       d.groups,
       d.roles,
       d.client_address,
       d.client_protocol,
       d.application,
       d.session_id,
       d.verdict,
       d.code,
       d.message,
       d.plan_class,
       d.resources,
       d.policies,
       d.statement,
       d.forwarded,
       d.readers_agree,
       d.snapshot,
       d.duration_ms AS judge_ms,
       o.kind        AS ended,
       o.time        AS ended_at,
       o.outcome,
       o.backend_operation,
       o.rows,
       o.bytes,
       o.duration_ms,
       o.error,
       d.body        AS decided_body,
       o.body        AS ended_body
FROM sluice.audit_event d
LEFT JOIN sluice.audit_event o
       ON o.statement_id = d.statement_id
      AND o.kind IN ('completed', 'abandoned')
      AND d.verdict = 'cleared'
WHERE d.kind = 'decided';
