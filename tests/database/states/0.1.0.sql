-- The record of Sluice 0.1.0 (commit 05cdd11f^): 10 events, by pg_dump --inserts --no-owner --no-privileges
-- --schema=sluice, without its comments and its own settings. tests/database/test_upgrade.py upgrades it.
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET row_security = off;
CREATE SCHEMA sluice;
CREATE FUNCTION sluice.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND current_setting('sluice.erasing', true) = 'on' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'sluice.audit_event is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE FUNCTION sluice.refuse_erasure_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'sluice.audit_erasure is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE FUNCTION sluice.refuse_rewriting() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'sluice.ranger_history is not rewritten' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE FUNCTION sluice.refuse_seal_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'sluice.audit_seal is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TABLE sluice.archive_chain (
    day date NOT NULL,
    gateway text NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL
);
CREATE TABLE sluice.archive_day (
    day date NOT NULL,
    version integer NOT NULL,
    events bigint NOT NULL,
    unchained bigint NOT NULL,
    links text NOT NULL,
    digests text NOT NULL,
    as_of timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    erasure bigint NOT NULL,
    bytes bigint NOT NULL,
    verified_at timestamp with time zone NOT NULL,
    dropped_at timestamp with time zone,
    dropped_events bigint DEFAULT 0 NOT NULL,
    dropped_unchained bigint DEFAULT 0 NOT NULL,
    dropped_links text DEFAULT '0'::text NOT NULL,
    dropped_digests text DEFAULT '0'::text NOT NULL,
    left_erasures bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    left_up_to bigint DEFAULT 0 NOT NULL
);
COMMENT ON TABLE sluice.archive_day IS 'Days of the record that are in the lake';
CREATE TABLE sluice.audit_before_chain (
    began timestamp with time zone,
    events bigint
);
CREATE TABLE sluice.audit_chain (
    gateway text NOT NULL,
    chain_position bigint NOT NULL,
    link bytea NOT NULL
);
CREATE TABLE sluice.audit_erasure (
    id bigint NOT NULL,
    "time" timestamp with time zone DEFAULT now() NOT NULL,
    by_user text NOT NULL,
    user_name text NOT NULL,
    until timestamp with time zone NOT NULL,
    reason text NOT NULL,
    events bigint NOT NULL,
    signature text
);
ALTER TABLE sluice.audit_erasure ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.audit_erasure_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice.audit_event (
    event_id uuid NOT NULL,
    "time" timestamp with time zone NOT NULL,
    kind text NOT NULL,
    statement_id uuid,
    gateway text NOT NULL,
    user_name text NOT NULL,
    groups text[],
    roles text[],
    client_address text,
    client_protocol text,
    application text,
    session_id text,
    verdict text,
    code text,
    message text,
    plan_class text,
    resources text[],
    policies text[],
    statement text,
    statement_sha256 bytea,
    forwarded text,
    forwarded_sha256 bytea,
    readers_agree boolean,
    snapshot text,
    backend_operation text,
    rows bigint,
    bytes bigint,
    duration_ms double precision,
    outcome text,
    error text,
    body jsonb NOT NULL,
    original_record bytea,
    stored_at timestamp with time zone DEFAULT now() NOT NULL,
    chain_position bigint,
    link bytea,
    erased jsonb
)
PARTITION BY RANGE ("time");
COMMENT ON TABLE sluice.audit_event IS 'Audit events of all gateways; append-only';
CREATE TABLE sluice.audit_event_20261130 (
    event_id uuid CONSTRAINT audit_event_event_id_not_null NOT NULL,
    "time" timestamp with time zone CONSTRAINT audit_event_time_not_null NOT NULL,
    kind text CONSTRAINT audit_event_kind_not_null NOT NULL,
    statement_id uuid,
    gateway text CONSTRAINT audit_event_gateway_not_null NOT NULL,
    user_name text CONSTRAINT audit_event_user_name_not_null NOT NULL,
    groups text[],
    roles text[],
    client_address text,
    client_protocol text,
    application text,
    session_id text,
    verdict text,
    code text,
    message text,
    plan_class text,
    resources text[],
    policies text[],
    statement text,
    statement_sha256 bytea,
    forwarded text,
    forwarded_sha256 bytea,
    readers_agree boolean,
    snapshot text,
    backend_operation text,
    rows bigint,
    bytes bigint,
    duration_ms double precision,
    outcome text,
    error text,
    body jsonb CONSTRAINT audit_event_body_not_null NOT NULL,
    original_record bytea,
    stored_at timestamp with time zone DEFAULT now() CONSTRAINT audit_event_stored_at_not_null NOT NULL,
    chain_position bigint,
    link bytea,
    erased jsonb
);
CREATE TABLE sluice.audit_event_20261201 (
    event_id uuid CONSTRAINT audit_event_event_id_not_null NOT NULL,
    "time" timestamp with time zone CONSTRAINT audit_event_time_not_null NOT NULL,
    kind text CONSTRAINT audit_event_kind_not_null NOT NULL,
    statement_id uuid,
    gateway text CONSTRAINT audit_event_gateway_not_null NOT NULL,
    user_name text CONSTRAINT audit_event_user_name_not_null NOT NULL,
    groups text[],
    roles text[],
    client_address text,
    client_protocol text,
    application text,
    session_id text,
    verdict text,
    code text,
    message text,
    plan_class text,
    resources text[],
    policies text[],
    statement text,
    statement_sha256 bytea,
    forwarded text,
    forwarded_sha256 bytea,
    readers_agree boolean,
    snapshot text,
    backend_operation text,
    rows bigint,
    bytes bigint,
    duration_ms double precision,
    outcome text,
    error text,
    body jsonb CONSTRAINT audit_event_body_not_null NOT NULL,
    original_record bytea,
    stored_at timestamp with time zone DEFAULT now() CONSTRAINT audit_event_stored_at_not_null NOT NULL,
    chain_position bigint,
    link bytea,
    erased jsonb
);
CREATE TABLE sluice.audit_event_20261202 (
    event_id uuid CONSTRAINT audit_event_event_id_not_null NOT NULL,
    "time" timestamp with time zone CONSTRAINT audit_event_time_not_null NOT NULL,
    kind text CONSTRAINT audit_event_kind_not_null NOT NULL,
    statement_id uuid,
    gateway text CONSTRAINT audit_event_gateway_not_null NOT NULL,
    user_name text CONSTRAINT audit_event_user_name_not_null NOT NULL,
    groups text[],
    roles text[],
    client_address text,
    client_protocol text,
    application text,
    session_id text,
    verdict text,
    code text,
    message text,
    plan_class text,
    resources text[],
    policies text[],
    statement text,
    statement_sha256 bytea,
    forwarded text,
    forwarded_sha256 bytea,
    readers_agree boolean,
    snapshot text,
    backend_operation text,
    rows bigint,
    bytes bigint,
    duration_ms double precision,
    outcome text,
    error text,
    body jsonb CONSTRAINT audit_event_body_not_null NOT NULL,
    original_record bytea,
    stored_at timestamp with time zone DEFAULT now() CONSTRAINT audit_event_stored_at_not_null NOT NULL,
    chain_position bigint,
    link bytea,
    erased jsonb
);
CREATE TABLE sluice.audit_seal (
    number bigint NOT NULL,
    made_at timestamp with time zone NOT NULL,
    content text NOT NULL
);
COMMENT ON TABLE sluice.audit_seal IS 'Signed heads of all chains; append-only';
CREATE VIEW sluice.audit_statement AS
 SELECT d.event_id,
    d."time",
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
    o.kind AS ended,
    o."time" AS ended_at,
    o.outcome,
    o.backend_operation,
    o.rows,
    o.bytes,
    o.duration_ms,
    o.error,
    d.body AS decided_body,
    o.body AS ended_body
   FROM (sluice.audit_event d
     LEFT JOIN sluice.audit_event o ON (((o.statement_id = d.statement_id) AND (o.kind = ANY (ARRAY['completed'::text, 'abandoned'::text])) AND (d.verdict = 'cleared'::text))))
  WHERE (d.kind = 'decided'::text);
CREATE TABLE sluice.classification_drift (
    catalog text NOT NULL,
    database text NOT NULL,
    table_name text NOT NULL,
    column_name text NOT NULL,
    tag text NOT NULL,
    kind text NOT NULL,
    rule text NOT NULL,
    evidence jsonb NOT NULL,
    found_at timestamp with time zone NOT NULL,
    CONSTRAINT classification_drift_kind_check CHECK ((kind = ANY (ARRAY['no_longer_fits'::text, 'new_class'::text])))
);
COMMENT ON TABLE sluice.classification_drift IS 'Columns that are no longer what was decided of their tags';
CREATE TABLE sluice.classified_table (
    catalog text NOT NULL,
    database text NOT NULL,
    table_name text NOT NULL,
    state text NOT NULL,
    signature text NOT NULL,
    columns bigint DEFAULT 0 NOT NULL,
    unreadable bigint DEFAULT 0 NOT NULL,
    rows bigint DEFAULT 0 NOT NULL,
    bytes bigint DEFAULT 0 NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    run bigint NOT NULL,
    classified_at timestamp with time zone NOT NULL,
    CONSTRAINT classified_table_state_check CHECK ((state = ANY (ARRAY['classified'::text, 'unreadable'::text, 'view'::text])))
);
COMMENT ON TABLE sluice.classified_table IS 'Tables whose columns were classified by samples';
CREATE TABLE sluice.closure_finding (
    table_name text NOT NULL,
    column_name text NOT NULL,
    tag text NOT NULL,
    how text NOT NULL,
    sources bigint NOT NULL,
    source text NOT NULL,
    distance bigint NOT NULL
);
COMMENT ON TABLE sluice.closure_finding IS 'Columns that have the values of tagged ones, and not the tag';
CREATE TABLE sluice.closure_state (
    only_one boolean DEFAULT true NOT NULL,
    basis text NOT NULL,
    run bigint NOT NULL,
    columns bigint NOT NULL,
    edges bigint NOT NULL,
    pairs bigint NOT NULL,
    cut_off text DEFAULT ''::text NOT NULL,
    CONSTRAINT closure_state_only_one_check CHECK (only_one)
);
CREATE TABLE sluice.dataset (
    source text NOT NULL,
    path text NOT NULL,
    database text NOT NULL,
    table_name text NOT NULL,
    url text NOT NULL,
    format text NOT NULL,
    options jsonb NOT NULL,
    columns jsonb NOT NULL,
    files bigint NOT NULL,
    bytes bigint NOT NULL,
    signature text NOT NULL,
    promoted_at timestamp with time zone DEFAULT now() NOT NULL,
    promoted_by text NOT NULL,
    looked_at timestamp with time zone DEFAULT now() NOT NULL,
    finding text DEFAULT ''::text NOT NULL
);
COMMENT ON TABLE sluice.dataset IS 'Files that became tables when they were first named';
CREATE TABLE sluice.dataset_begun (
    source text NOT NULL,
    path text NOT NULL,
    database text NOT NULL,
    table_name text NOT NULL,
    url text NOT NULL,
    begun_at timestamp with time zone DEFAULT now() NOT NULL,
    begun_by text NOT NULL
);
COMMENT ON TABLE sluice.dataset_begun IS 'Promotions of files that began and have not ended';
CREATE TABLE sluice.found_directory (
    source text NOT NULL,
    path text NOT NULL,
    files bigint NOT NULL,
    table_format text NOT NULL,
    seen_at timestamp with time zone NOT NULL
);
COMMENT ON TABLE sluice.found_directory IS 'Directories with files in them that walks of sources have seen';
CREATE TABLE sluice.gateway_answer (
    request uuid NOT NULL,
    gateway text NOT NULL,
    body jsonb NOT NULL
);
CREATE TABLE sluice.gateway_request (
    id uuid NOT NULL,
    asked_at timestamp with time zone DEFAULT now() NOT NULL,
    body jsonb NOT NULL
);
CREATE TABLE sluice.job_partition (
    table_name text NOT NULL,
    partition text NOT NULL,
    run bigint NOT NULL,
    filled boolean
);
CREATE TABLE sluice.job_run (
    id bigint NOT NULL,
    job text NOT NULL,
    version integer NOT NULL,
    state text NOT NULL,
    runner text NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    range_from timestamp with time zone,
    range_to timestamp with time zone,
    rows_in bigint DEFAULT 0 NOT NULL,
    rows_out bigint DEFAULT 0 NOT NULL,
    seconds double precision,
    application text DEFAULT ''::text NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    whole boolean DEFAULT true NOT NULL,
    CONSTRAINT job_run_state_check CHECK ((state = ANY (ARRAY['running'::text, 'done'::text, 'failed'::text, 'killed'::text])))
);
COMMENT ON TABLE sluice.job_run IS 'Runs of jobs on Spark';
ALTER TABLE sluice.job_run ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.job_run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice.job_watermark (
    job text NOT NULL,
    version integer NOT NULL,
    watermark timestamp with time zone NOT NULL,
    run bigint NOT NULL,
    saved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE sluice.lineage_column (
    id bigint NOT NULL,
    dataset bigint NOT NULL,
    name text NOT NULL
);
ALTER TABLE sluice.lineage_column ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.lineage_column_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice.lineage_dataset (
    id bigint NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    parts text[] NOT NULL,
    first_seen timestamp with time zone NOT NULL,
    last_seen timestamp with time zone NOT NULL,
    user_name text
);
ALTER TABLE sluice.lineage_dataset ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.lineage_dataset_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice.lineage_edge (
    id bigint NOT NULL,
    source bigint NOT NULL,
    target bigint NOT NULL,
    subtype text NOT NULL,
    masking boolean NOT NULL,
    expression text NOT NULL,
    statements bigint NOT NULL,
    finished boolean NOT NULL,
    first_seen timestamp with time zone NOT NULL,
    last_seen timestamp with time zone NOT NULL,
    last_statement uuid NOT NULL,
    aggregates text[] DEFAULT '{-}'::text[] NOT NULL,
    changed_in xid8 DEFAULT pg_current_xact_id() NOT NULL
)
WITH (fillfactor='80');
COMMENT ON TABLE sluice.lineage_edge IS 'Column lineage; an edge stands once, with how often and when it was seen';
ALTER TABLE sluice.lineage_edge ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.lineage_edge_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice.lineage_queue (
    statement_id uuid NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    gateway text NOT NULL,
    ready_at timestamp with time zone,
    attempts smallint DEFAULT 0 NOT NULL,
    retry_at timestamp with time zone
);
COMMENT ON TABLE sluice.lineage_queue IS 'Recorded statements whose lineage is still to be made';
CREATE TABLE sluice.lineage_statement (
    id uuid NOT NULL,
    "time" timestamp with time zone NOT NULL,
    user_name text NOT NULL,
    operation text NOT NULL,
    outcome text NOT NULL,
    table_level text DEFAULT ''::text NOT NULL,
    edges bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    datasets bigint[] DEFAULT '{}'::bigint[] NOT NULL
);
CREATE TABLE sluice.proof (
    run bigint NOT NULL,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    statements bigint NOT NULL,
    proved bigint NOT NULL,
    different bigint NOT NULL,
    obliged bigint NOT NULL
);
CREATE TABLE sluice.proof_alarm (
    id bigint NOT NULL,
    run bigint NOT NULL,
    found_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    statement_id uuid NOT NULL,
    user_name text NOT NULL,
    fingerprint text NOT NULL,
    tables text[] NOT NULL,
    only_governed bigint,
    only_copied bigint,
    what text NOT NULL
);
ALTER TABLE sluice.proof_alarm ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.proof_alarm_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice.proof_left_out (
    run bigint NOT NULL,
    reason text NOT NULL,
    statements bigint NOT NULL,
    example uuid NOT NULL
);
CREATE TABLE sluice.ranger_change (
    sequence bigint NOT NULL,
    service text NOT NULL,
    version bigint NOT NULL,
    change smallint NOT NULL,
    body jsonb,
    "time" timestamp with time zone NOT NULL
);
ALTER TABLE sluice.ranger_change ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.ranger_change_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice.ranger_counter (
    kind text NOT NULL,
    last bigint NOT NULL
);
CREATE TABLE sluice.ranger_history (
    sequence bigint NOT NULL,
    "time" timestamp with time zone NOT NULL,
    who text NOT NULL,
    action text NOT NULL,
    kind text NOT NULL,
    object_id bigint NOT NULL,
    name text NOT NULL,
    service text NOT NULL,
    version bigint NOT NULL,
    before jsonb,
    after jsonb
);
ALTER TABLE sluice.ranger_history ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.ranger_history_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice.ranger_object (
    kind text NOT NULL,
    id bigint NOT NULL,
    guid text NOT NULL,
    name text NOT NULL,
    service text DEFAULT ''::text NOT NULL,
    zone text DEFAULT ''::text NOT NULL,
    signature text,
    version bigint NOT NULL,
    body jsonb NOT NULL
);
COMMENT ON TABLE sluice.ranger_object IS 'Service definitions, services, policies, roles, zones, tags, users';
CREATE TABLE sluice.ranger_plugin (
    id bigint NOT NULL,
    service text NOT NULL,
    plugin text NOT NULL,
    address text NOT NULL,
    created_ms bigint NOT NULL,
    updated_ms bigint NOT NULL,
    info jsonb NOT NULL
);
ALTER TABLE sluice.ranger_plugin ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.ranger_plugin_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice.ranger_version (
    service text NOT NULL,
    what text NOT NULL,
    version bigint NOT NULL,
    updated_ms bigint NOT NULL
);
CREATE TABLE sluice.recommend_day (
    day date NOT NULL,
    source text NOT NULL,
    rows bigint NOT NULL
);
CREATE TABLE sluice.recommend_seen (
    item text NOT NULL,
    first_seen timestamp with time zone NOT NULL
);
CREATE TABLE sluice.recommendation (
    id bigint NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    title text NOT NULL,
    state text NOT NULL,
    change jsonb NOT NULL,
    basis text NOT NULL,
    evidence jsonb NOT NULL,
    run bigint NOT NULL,
    proposed_at timestamp with time zone NOT NULL,
    decided_at timestamp with time zone,
    decided_by text DEFAULT ''::text NOT NULL,
    CONSTRAINT recommendation_state_check CHECK ((state = ANY (ARRAY['proposed'::text, 'rejected'::text, 'applied'::text])))
);
COMMENT ON TABLE sluice.recommendation IS 'Changes to policies that the use of them speaks for';
ALTER TABLE sluice.recommendation ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.recommendation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice.replay (
    run bigint NOT NULL,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    old text NOT NULL,
    new text NOT NULL,
    catalog text NOT NULL,
    range_from timestamp with time zone NOT NULL,
    range_to timestamp with time zone NOT NULL,
    statements bigint NOT NULL,
    judged bigint NOT NULL,
    asked_nothing bigint NOT NULL,
    unjudged bigint NOT NULL,
    changed bigint NOT NULL,
    decided_otherwise bigint NOT NULL,
    CONSTRAINT replay_catalog_check CHECK ((catalog = ANY (ARRAY['was'::text, 'now'::text])))
);
CREATE TABLE sluice.replay_change (
    run bigint NOT NULL,
    kind text NOT NULL,
    user_name text NOT NULL,
    resource text NOT NULL,
    column_name text NOT NULL,
    before text NOT NULL,
    after text NOT NULL,
    statements bigint NOT NULL,
    fingerprints text[] NOT NULL,
    examples uuid[] NOT NULL,
    CONSTRAINT replay_change_kind_check CHECK ((kind = ANY (ARRAY['lost'::text, 'gained'::text, 'mask'::text, 'filter'::text])))
);
CREATE TABLE sluice.replay_unjudged (
    run bigint NOT NULL,
    reason text NOT NULL,
    statements bigint NOT NULL,
    example uuid NOT NULL
);
CREATE TABLE sluice.rollup_chain (
    gateway text NOT NULL,
    seen bigint NOT NULL
);
CREATE TABLE sluice.rollup_latency (
    hour timestamp with time zone NOT NULL,
    dimension text NOT NULL,
    name text NOT NULL,
    phase text NOT NULL,
    statements bigint NOT NULL,
    total_ms double precision NOT NULL,
    max_ms double precision NOT NULL,
    buckets jsonb NOT NULL
);
CREATE TABLE sluice.rollup_left (
    hour timestamp with time zone NOT NULL
);
CREATE TABLE sluice.rollup_refusal (
    day date NOT NULL,
    user_name text NOT NULL,
    code text NOT NULL,
    resource text NOT NULL,
    action text NOT NULL,
    policy text NOT NULL,
    endpoint text NOT NULL,
    tool text NOT NULL,
    attempts bigint NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    groups text[] DEFAULT '{}'::text[] NOT NULL
);
CREATE TABLE sluice.rollup_statement (
    day date NOT NULL,
    fingerprint text NOT NULL,
    user_name text NOT NULL,
    statements bigint NOT NULL,
    finished bigint NOT NULL,
    rows bigint NOT NULL,
    bytes bigint NOT NULL,
    judge_ms double precision NOT NULL,
    run_ms double precision NOT NULL,
    slowest_ms double precision NOT NULL,
    slowest_statement text NOT NULL,
    groups text[] DEFAULT '{}'::text[] NOT NULL,
    tables text[] DEFAULT '{}'::text[] NOT NULL
);
CREATE TABLE sluice.rollup_usage (
    day date NOT NULL,
    user_name text NOT NULL,
    groups text[] NOT NULL,
    table_name text NOT NULL,
    column_name text NOT NULL,
    endpoint text NOT NULL,
    tool text NOT NULL,
    masks text[] NOT NULL,
    filters text[] NOT NULL,
    statements bigint NOT NULL,
    finished bigint NOT NULL,
    rows bigint NOT NULL,
    bytes bigint NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL
);
CREATE TABLE sluice.schema_version (
    version integer NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE sluice.source_walk (
    source text NOT NULL,
    reached text NOT NULL,
    began_at timestamp with time zone NOT NULL,
    walked_at timestamp with time zone NOT NULL,
    found bigint DEFAULT 0 NOT NULL,
    trouble text DEFAULT ''::text NOT NULL
);
COMMENT ON TABLE sluice.source_walk IS 'How far walks of sources of files have come';
CREATE TABLE sluice.tag_decision (
    proposal bigint NOT NULL,
    "time" timestamp with time zone DEFAULT now() NOT NULL,
    user_name text NOT NULL,
    state text NOT NULL
);
CREATE TABLE sluice.tag_proposal (
    id bigint NOT NULL,
    catalog text NOT NULL,
    database text NOT NULL,
    table_name text NOT NULL,
    column_name text NOT NULL,
    tag text NOT NULL,
    attributes jsonb NOT NULL,
    state text NOT NULL,
    asks boolean NOT NULL,
    origins jsonb NOT NULL,
    judged text[] DEFAULT '{}'::text[] NOT NULL,
    proposed_at timestamp with time zone DEFAULT now() NOT NULL,
    decided_at timestamp with time zone,
    decided_by text DEFAULT ''::text NOT NULL,
    evidence jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT tag_proposal_state_check CHECK ((state = ANY (ARRAY['proposed'::text, 'accepted'::text, 'rejected'::text])))
);
COMMENT ON TABLE sluice.tag_proposal IS 'Tags that columns would get from what flows into them, and what was decided';
ALTER TABLE sluice.tag_proposal ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sluice.tag_proposal_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sluice.tag_state (
    only_one boolean DEFAULT true NOT NULL,
    accepted bigint DEFAULT 0 NOT NULL,
    decisions bigint DEFAULT 0 NOT NULL,
    edges xid8 DEFAULT '0'::xid8 NOT NULL,
    decided bigint DEFAULT '-1'::integer NOT NULL,
    basis text DEFAULT ''::text NOT NULL,
    looked_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    CONSTRAINT tag_state_only_one_check CHECK (only_one)
);
CREATE TABLE sluice.verification (
    run bigint NOT NULL,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    range_from timestamp with time zone,
    range_to timestamp with time zone,
    events bigint NOT NULL,
    gateways bigint NOT NULL,
    seals bigint NOT NULL,
    signatures_checked boolean NOT NULL,
    before_chain bigint NOT NULL,
    findings bigint NOT NULL
);
CREATE TABLE sluice.verification_finding (
    run bigint NOT NULL,
    kind text NOT NULL,
    place text NOT NULL,
    gateway text NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    event_id text NOT NULL
);
ALTER TABLE ONLY sluice.audit_event ATTACH PARTITION sluice.audit_event_20261130 FOR VALUES FROM ('2026-11-30 00:00:00+00') TO ('2026-12-01 00:00:00+00');
ALTER TABLE ONLY sluice.audit_event ATTACH PARTITION sluice.audit_event_20261201 FOR VALUES FROM ('2026-12-01 00:00:00+00') TO ('2026-12-02 00:00:00+00');
ALTER TABLE ONLY sluice.audit_event ATTACH PARTITION sluice.audit_event_20261202 FOR VALUES FROM ('2026-12-02 00:00:00+00') TO ('2026-12-03 00:00:00+00');
INSERT INTO sluice.audit_before_chain VALUES ('2026-11-30 07:44:26.88807+00', 0);
INSERT INTO sluice.audit_chain VALUES ('sluice-test', 10, '\x0cdb86d2ae783567b6b62421489add46b0ddf8e7984c328b163114d8c20f3473');
INSERT INTO sluice.audit_event_20261130 VALUES ('01a22b69-8903-75e6-9df4-12584acacb31', '2026-11-30 07:44:26.371546+00', 'decided', '01a22b69-8903-75e6-9df4-12584acacb31', 'sluice-test', 'bob', '{staff}', '{analyst}', '10.0.0.5:51000', 'thrift', 'beeline', 's-1', 'cleared', NULL, '', 'Project', '{spark_catalog.hr.employee,spark_catalog.hr.employee.name,spark_catalog.hr.employee.ssn}', '{"hr readers"}', 'SELECT name, ssn FROM hr.employee', '\xb557125e63808bf6296e7f5f967dd05fb18567457e610eced442d91bd0352302', 'SELECT name, ssn FROM (SELECT `name`, NULL AS `ssn` FROM `hr`.`employee`)', '\x22ad1cc99c637d7f31b70a81afac3cce4abb334d0f469380dd4c23441fe93f5b', true, 'policies=3 catalog=17', NULL, NULL, NULL, 1.8, NULL, NULL, '{"repo": "spark", "sess": "s-1", "cliIP": "10.0.0.5:51000", "roles": ["analyst"], "scans": [{"table": "spark_catalog.hr.employee", "access": "select", "columns": ["name", "ssn"], "obligations": [{"type": "MASK_NULL", "column": "ssn", "policy": 7, "expression": "NULL", "policy_name": "hr readers", "policy_version": 3}]}], "access": "SELECT", "action": "select", "groups": ["staff"], "policy": 7, "reason": "", "result": 1, "catalog": "spark_catalog", "cliType": "thrift", "reqUser": "bob", "resType": "@column", "verdict": "cleared", "enforcer": "sluice-acl", "policies": ["hr readers"], "resource": "spark_catalog/hr/employee/name", "snapshot": "policies=3 catalog=17", "decisions": [{"action": "select", "policy": 7, "reason": "", "result": 1, "columns": ["name", "ssn"], "resType": "@column", "resource": "spark_catalog/hr/employee", "policy_name": "hr readers", "policy_version": 3}], "namespace": ["default"], "resources": ["spark_catalog.hr.employee", "spark_catalog.hr.employee.name", "spark_catalog.hr.employee.ssn"], "plan_class": "Project", "application": "beeline", "duration_us": 1800, "readers_agree": true, "policy_version": 3, "reqData_sha256": "b557125e63808bf6296e7f5f967dd05fb18567457e610eced442d91bd0352302", "forwarded_sha256": "22ad1cc99c637d7f31b70a81afac3cce4abb334d0f469380dd4c23441fe93f5b"}', NULL, '2026-11-30 07:44:28.150992+00', 1, '\xdb6dafb121844eb38052084fd5061c665732a13e2cf8ec1925c34067e612e6c6', NULL);
INSERT INTO sluice.audit_event_20261130 VALUES ('01a22b69-8903-738d-88dd-922ec7774263', '2026-11-30 07:44:26.374915+00', 'completed', '01a22b69-8903-75e6-9df4-12584acacb31', 'sluice-test', 'bob', NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'ab12', 3, 99, 12.5, 'finished', NULL, '{"rows": 3, "sess": "", "bytes": 99, "outcome": "finished", "reqUser": "bob", "spark_ms": 10.0, "duration_ms": 12.5, "backend_operation": "ab12"}', NULL, '2026-11-30 07:44:28.150992+00', 2, '\x82bddbeff7f0dec1cf9df0a1d4f818294179ca3f970ffc1ac75dae9bc7b187e9', NULL);
INSERT INTO sluice.audit_event_20261130 VALUES ('01a22b69-8907-7f62-9c17-b165bfa313e8', '2026-11-30 07:44:26.375111+00', 'decided', '01a22b69-8907-7f62-9c17-b165bfa313e8', 'sluice-test', 'bob', '{staff}', '{analyst}', '10.0.0.5:51000', 'thrift', 'beeline', 's-1', 'cleared', NULL, '', 'Project', '{spark_catalog.hr.employee,spark_catalog.hr.employee.name,spark_catalog.hr.employee.ssn}', '{"hr readers"}', 'SELECT name, ssn FROM hr.employee', '\xb557125e63808bf6296e7f5f967dd05fb18567457e610eced442d91bd0352302', 'SELECT name, ssn FROM (SELECT `name`, NULL AS `ssn` FROM `hr`.`employee`)', '\x22ad1cc99c637d7f31b70a81afac3cce4abb334d0f469380dd4c23441fe93f5b', true, 'policies=3 catalog=17', NULL, NULL, NULL, 1.8, NULL, NULL, '{"repo": "spark", "sess": "s-1", "cliIP": "10.0.0.5:51000", "roles": ["analyst"], "scans": [{"table": "spark_catalog.hr.employee", "access": "select", "columns": ["name", "ssn"], "obligations": [{"type": "MASK_NULL", "column": "ssn", "policy": 7, "expression": "NULL", "policy_name": "hr readers", "policy_version": 3}]}], "access": "SELECT", "action": "select", "groups": ["staff"], "policy": 7, "reason": "", "result": 1, "catalog": "spark_catalog", "cliType": "thrift", "reqUser": "bob", "resType": "@column", "verdict": "cleared", "enforcer": "sluice-acl", "policies": ["hr readers"], "resource": "spark_catalog/hr/employee/name", "snapshot": "policies=3 catalog=17", "decisions": [{"action": "select", "policy": 7, "reason": "", "result": 1, "columns": ["name", "ssn"], "resType": "@column", "resource": "spark_catalog/hr/employee", "policy_name": "hr readers", "policy_version": 3}], "namespace": ["default"], "resources": ["spark_catalog.hr.employee", "spark_catalog.hr.employee.name", "spark_catalog.hr.employee.ssn"], "plan_class": "Project", "application": "beeline", "duration_us": 1800, "readers_agree": true, "policy_version": 3, "reqData_sha256": "b557125e63808bf6296e7f5f967dd05fb18567457e610eced442d91bd0352302", "forwarded_sha256": "22ad1cc99c637d7f31b70a81afac3cce4abb334d0f469380dd4c23441fe93f5b"}', NULL, '2026-11-30 07:44:28.150992+00', 3, '\xf35caed62268ca46fc484e867167f8dbce6b13e791670c2ed76b736c10d5205e', NULL);
INSERT INTO sluice.audit_event_20261130 VALUES ('01a22b69-8907-789e-b241-526f657c7f72', '2026-11-30 07:44:26.375893+00', 'completed', '01a22b69-8907-7f62-9c17-b165bfa313e8', 'sluice-test', 'bob', NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'ab12', 3, 99, 12.5, 'finished', NULL, '{"rows": 3, "sess": "", "bytes": 99, "outcome": "finished", "reqUser": "bob", "spark_ms": 10.0, "duration_ms": 12.5, "backend_operation": "ab12"}', NULL, '2026-11-30 07:44:28.150992+00', 4, '\xb85000b81d15c13fbfcec63ccf526621092e4eb0507866a787f4c83089549b43', NULL);
INSERT INTO sluice.audit_event_20261130 VALUES ('01a22b69-8907-792a-a594-8dc5267afc7c', '2026-11-30 07:44:26.376001+00', 'decided', '01a22b69-8907-792a-a594-8dc5267afc7c', 'sluice-test', 'bob', '{staff}', '{analyst}', '10.0.0.5:51000', 'thrift', 'beeline', 's-1', 'cleared', NULL, '', 'Project', '{spark_catalog.hr.employee,spark_catalog.hr.employee.name,spark_catalog.hr.employee.ssn}', '{"hr readers"}', 'SELECT name, ssn FROM hr.employee', '\xb557125e63808bf6296e7f5f967dd05fb18567457e610eced442d91bd0352302', 'SELECT name, ssn FROM (SELECT `name`, NULL AS `ssn` FROM `hr`.`employee`)', '\x22ad1cc99c637d7f31b70a81afac3cce4abb334d0f469380dd4c23441fe93f5b', true, 'policies=3 catalog=17', NULL, NULL, NULL, 1.8, NULL, NULL, '{"repo": "spark", "sess": "s-1", "cliIP": "10.0.0.5:51000", "roles": ["analyst"], "scans": [{"table": "spark_catalog.hr.employee", "access": "select", "columns": ["name", "ssn"], "obligations": [{"type": "MASK_NULL", "column": "ssn", "policy": 7, "expression": "NULL", "policy_name": "hr readers", "policy_version": 3}]}], "access": "SELECT", "action": "select", "groups": ["staff"], "policy": 7, "reason": "", "result": 1, "catalog": "spark_catalog", "cliType": "thrift", "reqUser": "bob", "resType": "@column", "verdict": "cleared", "enforcer": "sluice-acl", "policies": ["hr readers"], "resource": "spark_catalog/hr/employee/name", "snapshot": "policies=3 catalog=17", "decisions": [{"action": "select", "policy": 7, "reason": "", "result": 1, "columns": ["name", "ssn"], "resType": "@column", "resource": "spark_catalog/hr/employee", "policy_name": "hr readers", "policy_version": 3}], "namespace": ["default"], "resources": ["spark_catalog.hr.employee", "spark_catalog.hr.employee.name", "spark_catalog.hr.employee.ssn"], "plan_class": "Project", "application": "beeline", "duration_us": 1800, "readers_agree": true, "policy_version": 3, "reqData_sha256": "b557125e63808bf6296e7f5f967dd05fb18567457e610eced442d91bd0352302", "forwarded_sha256": "22ad1cc99c637d7f31b70a81afac3cce4abb334d0f469380dd4c23441fe93f5b"}', NULL, '2026-11-30 07:44:28.150992+00', 5, '\x4ba5a1b399f16724c01b31197d6cc49737b26e4d917d6358a16f2d334d48221e', NULL);
INSERT INTO sluice.audit_event_20261130 VALUES ('01a22b69-8907-7fb1-8c2a-0db4d32cd6b8', '2026-11-30 07:44:26.380472+00', 'completed', '01a22b69-8907-792a-a594-8dc5267afc7c', 'sluice-test', 'bob', NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'ab12', 3, 99, 12.5, 'finished', NULL, '{"rows": 3, "sess": "", "bytes": 99, "outcome": "finished", "reqUser": "bob", "spark_ms": 10.0, "duration_ms": 12.5, "backend_operation": "ab12"}', NULL, '2026-11-30 07:44:28.150992+00', 6, '\xf774a29869a8f3e3e18f22b19b9b7d88aee81992722db69ee5f86ecc6d6a20b9', NULL);
INSERT INTO sluice.audit_event_20261130 VALUES ('01a22b69-890c-76f7-bef9-e8f700fe6d81', '2026-11-30 07:44:26.380575+00', 'decided', '01a22b69-890c-76f7-bef9-e8f700fe6d81', 'sluice-test', 'bob', '{staff}', '{analyst}', '10.0.0.5:51000', 'thrift', 'beeline', 's-1', 'cleared', NULL, '', 'Project', '{spark_catalog.hr.employee,spark_catalog.hr.employee.name,spark_catalog.hr.employee.ssn}', '{"hr readers"}', 'SELECT name, ssn FROM hr.employee', '\xb557125e63808bf6296e7f5f967dd05fb18567457e610eced442d91bd0352302', 'SELECT name, ssn FROM (SELECT `name`, NULL AS `ssn` FROM `hr`.`employee`)', '\x22ad1cc99c637d7f31b70a81afac3cce4abb334d0f469380dd4c23441fe93f5b', true, 'policies=3 catalog=17', NULL, NULL, NULL, 1.8, NULL, NULL, '{"repo": "spark", "sess": "s-1", "cliIP": "10.0.0.5:51000", "roles": ["analyst"], "scans": [{"table": "spark_catalog.hr.employee", "access": "select", "columns": ["name", "ssn"], "obligations": [{"type": "MASK_NULL", "column": "ssn", "policy": 7, "expression": "NULL", "policy_name": "hr readers", "policy_version": 3}]}], "access": "SELECT", "action": "select", "groups": ["staff"], "policy": 7, "reason": "", "result": 1, "catalog": "spark_catalog", "cliType": "thrift", "reqUser": "bob", "resType": "@column", "verdict": "cleared", "enforcer": "sluice-acl", "policies": ["hr readers"], "resource": "spark_catalog/hr/employee/name", "snapshot": "policies=3 catalog=17", "decisions": [{"action": "select", "policy": 7, "reason": "", "result": 1, "columns": ["name", "ssn"], "resType": "@column", "resource": "spark_catalog/hr/employee", "policy_name": "hr readers", "policy_version": 3}], "namespace": ["default"], "resources": ["spark_catalog.hr.employee", "spark_catalog.hr.employee.name", "spark_catalog.hr.employee.ssn"], "plan_class": "Project", "application": "beeline", "duration_us": 1800, "readers_agree": true, "policy_version": 3, "reqData_sha256": "b557125e63808bf6296e7f5f967dd05fb18567457e610eced442d91bd0352302", "forwarded_sha256": "22ad1cc99c637d7f31b70a81afac3cce4abb334d0f469380dd4c23441fe93f5b"}', NULL, '2026-11-30 07:44:28.150992+00', 7, '\x136f85d2920a39bd60ab296504b86088354b737045a218170114e883bdea8003', NULL);
INSERT INTO sluice.audit_event_20261130 VALUES ('01a22b69-890c-75b7-aaab-3f1b803d0fc7', '2026-11-30 07:44:26.382241+00', 'completed', '01a22b69-890c-76f7-bef9-e8f700fe6d81', 'sluice-test', 'bob', NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'ab12', 3, 99, 12.5, 'finished', NULL, '{"rows": 3, "sess": "", "bytes": 99, "outcome": "finished", "reqUser": "bob", "spark_ms": 10.0, "duration_ms": 12.5, "backend_operation": "ab12"}', NULL, '2026-11-30 07:44:28.150992+00', 8, '\xdbb4ac61569f2c02b48ba24556d597ef7e9f0ed16ef77f4563e6746029c98f80', NULL);
INSERT INTO sluice.audit_event_20261130 VALUES ('01a22b69-890e-776f-8ca7-982264dff773', '2026-11-30 07:44:26.382327+00', 'decided', '01a22b69-890e-776f-8ca7-982264dff773', 'sluice-test', 'bob', '{}', '{}', '10.0.0.5:51000', 'thrift', 'beeline', 's-1', 'refused', 'ACCESS_DENIED', 'user `bob` needs select on column spark_catalog.hr.employee.salary', '', '{}', '{}', 'SELECT salary FROM hr.employee', '\x1dc17b3e0f4e95bb64d6698dcd0ec63595ad5b95c08a96411e0aee450fc02ecc', NULL, NULL, NULL, 'policies=3 catalog=17', NULL, NULL, NULL, 1.8, NULL, NULL, '{"code": "ACCESS_DENIED", "repo": "spark", "sess": "s-1", "cliIP": "10.0.0.5:51000", "roles": [], "groups": [], "policy": -1, "result": 0, "catalog": "spark_catalog", "cliType": "thrift", "message": "user `bob` needs select on column spark_catalog.hr.employee.salary", "reqUser": "bob", "verdict": "refused", "enforcer": "sluice-acl", "policies": [], "snapshot": "policies=3 catalog=17", "sqlstate": "42501", "decisions": [], "namespace": ["default"], "resources": [], "plan_class": "", "application": "beeline", "duration_us": 1800, "policy_version": 0, "reqData_sha256": "1dc17b3e0f4e95bb64d6698dcd0ec63595ad5b95c08a96411e0aee450fc02ecc"}', NULL, '2026-11-30 07:44:28.150992+00', 9, '\xd00f3632e41faa84ef04c9491a2521087d211dc9297563957ab87aff2cfba3b3', NULL);
INSERT INTO sluice.audit_event_20261130 VALUES ('01a22b69-890f-7201-9a3d-0ba4aa066906', '2026-11-30 07:44:26.383365+00', 'login', NULL, 'sluice-test', 'bob', NULL, NULL, '10.0.0.5:51000', 'thrift', '', '', 'accepted', NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"sess": "", "cliIP": "10.0.0.5:51000", "action": "login", "reason": "", "result": 1, "cliType": "thrift", "reqUser": "bob", "verdict": "accepted", "mechanism": "PLAIN", "application": ""}', NULL, '2026-11-30 07:44:28.150992+00', 10, '\x0cdb86d2ae783567b6b62421489add46b0ddf8e7984c328b163114d8c20f3473', NULL);
INSERT INTO sluice.schema_version VALUES (1, 'audit_event', 'f4d761d700ce136d68d5142a2e9ff529ef454caaf72def6f2528d97db80eb8cb', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (2, 'ranger_admin', 'f50a4e03a4081f38022d378fa74ee18422db02f0e8fa36dab62fdbfea7c40026', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (3, 'lineage', '270a48ffa699f7c2e1cf8873ced4ed2b92869ae26b46b5d4024a646b66f6b3a2', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (4, 'lineage_queue', 'b8e8414735237baa9aa74b7f2c0a7444d801a3e7f069d92e9fbfa6719073518a', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (5, 'lineage_asked', '1001781010796e65fc101b9f7c5a19c221d30863fb393b683efcb6f7702c5f9b', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (6, 'tag_proposal', 'fcfcbd459527a161c5e81706c2ce5735546f9f7e5060a44bc1199953973eccba', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (7, 'dataset', 'e7eb723e624f6383ec1eeffcde04c9728b7f2b1081d2faa06b1d4d78f7e91b46', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (8, 'audit_chain', '920ed28f3e8f4abd8ca4a5f641b654ef077ec470347fcb4e1586fbdd2ccf915d', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (9, 'jobs', '15031ad9c1ed5a4428cc2aa74040795fb5a25fec9932e74f3096f9207add93a1', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (10, 'classification', '173e6798b59483e53fc5b3ef37b8f68e73cbe2e96fdeb7d61eae47bfea893346', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (11, 'recommendation', 'a28cadbf869bb11d352949ff93a528aa734513f5fbcd931529ed753469561eeb', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (12, 'replay_proof', '0d89175489737738232d71fcd4dcec6843f7c68bb328dd0253ffcaa074395c37', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (13, 'dataset_look', '7e6189c02417095ad89ce49513e49ad2b0cfeb1bf958ce63e7430c06b522dac6', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (14, 'verification', '2852c22ad5b147fc2a0d10dbba419c2c504e9ef589ff24fec4604989ed44fb94', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (15, 'source_walk', '70bf622d5ef9dcaf2165942259e9a55dfaf709fd2db8211d4bbb0dd186c6df91', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (16, 'signed_erasure', 'e2aacf4af965b78d25ac4cb4b8c089b18a85f52419e41525ce111887f4b7d2ef', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (17, 'recommendation_subject', '71bf5e8fc893a1f32fab8b64c42a19442963d201dc8464cc9fd79fc81cfac31c', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (18, 'by_chain', '501609aad0261ebd9080dd3467ec9647b1217dcd25db9149cdcfca72b57c404e', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (19, 'filled_partition', 'ebc7c7f0e094158f500a8bff4f3fed3bd489a090d33eef63277532da2c1d668d', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (20, 'dataset_begun', '04121956b8a3c33968c95739457ad534dec595ef3a0702adf5374b111575d628', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (21, 'rollup_groups', '8949bad93a47708717e6fe2d7895b2157bb22d4d5759d7b792e737af2f100361', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (22, 'whole_run', '0750f1d237c6065745f94d52c9b0f5272b1935243d4c4ae24f1d2cf51b1d7bb8', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (23, 'left_erasures', '2f8117869e36fa40ee2e0add92e261a4cdde53f8eee9bc75bfebc975c903e65f', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (24, 'left_up_to', '0e3b97094f77d3b7e07349328bddc7d2e1c9743d6fe5513870846f4a89d5ce7f', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.schema_version VALUES (25, 'gateway_request', 'c8fe8873acdeedb4052df0d87381b33658cb60d0169f97301e7354a2497eb4e4', '2026-11-30 07:44:26.88807+00');
INSERT INTO sluice.tag_state VALUES (true, 0, 0, '0', -1, '', '-infinity');
SELECT pg_catalog.setval('sluice.audit_erasure_id_seq', 1, false);
SELECT pg_catalog.setval('sluice.job_run_id_seq', 1, false);
SELECT pg_catalog.setval('sluice.lineage_column_id_seq', 1, false);
SELECT pg_catalog.setval('sluice.lineage_dataset_id_seq', 1, false);
SELECT pg_catalog.setval('sluice.lineage_edge_id_seq', 1, false);
SELECT pg_catalog.setval('sluice.proof_alarm_id_seq', 1, false);
SELECT pg_catalog.setval('sluice.ranger_change_sequence_seq', 1, false);
SELECT pg_catalog.setval('sluice.ranger_history_sequence_seq', 1, false);
SELECT pg_catalog.setval('sluice.ranger_plugin_id_seq', 1, false);
SELECT pg_catalog.setval('sluice.recommendation_id_seq', 1, false);
SELECT pg_catalog.setval('sluice.tag_proposal_id_seq', 1, false);
ALTER TABLE ONLY sluice.archive_chain
    ADD CONSTRAINT archive_chain_pkey PRIMARY KEY (day, gateway);
ALTER TABLE ONLY sluice.archive_day
    ADD CONSTRAINT archive_day_pkey PRIMARY KEY (day);
ALTER TABLE ONLY sluice.audit_chain
    ADD CONSTRAINT audit_chain_pkey PRIMARY KEY (gateway);
ALTER TABLE ONLY sluice.audit_erasure
    ADD CONSTRAINT audit_erasure_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice.audit_event
    ADD CONSTRAINT audit_event_pkey PRIMARY KEY (event_id, "time");
ALTER TABLE ONLY sluice.audit_event_20261130
    ADD CONSTRAINT audit_event_20261130_pkey PRIMARY KEY (event_id, "time");
ALTER TABLE ONLY sluice.audit_event_20261201
    ADD CONSTRAINT audit_event_20261201_pkey PRIMARY KEY (event_id, "time");
ALTER TABLE ONLY sluice.audit_event_20261202
    ADD CONSTRAINT audit_event_20261202_pkey PRIMARY KEY (event_id, "time");
ALTER TABLE ONLY sluice.audit_seal
    ADD CONSTRAINT audit_seal_pkey PRIMARY KEY (number);
ALTER TABLE ONLY sluice.classification_drift
    ADD CONSTRAINT classification_drift_pkey PRIMARY KEY (catalog, database, table_name, column_name, tag, kind, rule);
ALTER TABLE ONLY sluice.classified_table
    ADD CONSTRAINT classified_table_pkey PRIMARY KEY (catalog, database, table_name);
ALTER TABLE ONLY sluice.closure_finding
    ADD CONSTRAINT closure_finding_pkey PRIMARY KEY (table_name, column_name, tag);
ALTER TABLE ONLY sluice.closure_state
    ADD CONSTRAINT closure_state_pkey PRIMARY KEY (only_one);
ALTER TABLE ONLY sluice.dataset_begun
    ADD CONSTRAINT dataset_begun_pkey PRIMARY KEY (database, table_name);
ALTER TABLE ONLY sluice.dataset
    ADD CONSTRAINT dataset_database_table_name_key UNIQUE (database, table_name);
ALTER TABLE ONLY sluice.dataset
    ADD CONSTRAINT dataset_pkey PRIMARY KEY (source, path);
ALTER TABLE ONLY sluice.found_directory
    ADD CONSTRAINT found_directory_pkey PRIMARY KEY (source, path);
ALTER TABLE ONLY sluice.gateway_answer
    ADD CONSTRAINT gateway_answer_pkey PRIMARY KEY (request, gateway);
ALTER TABLE ONLY sluice.gateway_request
    ADD CONSTRAINT gateway_request_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice.job_partition
    ADD CONSTRAINT job_partition_pkey PRIMARY KEY (table_name, partition);
ALTER TABLE ONLY sluice.job_run
    ADD CONSTRAINT job_run_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice.job_watermark
    ADD CONSTRAINT job_watermark_pkey PRIMARY KEY (job);
ALTER TABLE ONLY sluice.lineage_column
    ADD CONSTRAINT lineage_column_dataset_name_key UNIQUE (dataset, name);
ALTER TABLE ONLY sluice.lineage_column
    ADD CONSTRAINT lineage_column_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice.lineage_dataset
    ADD CONSTRAINT lineage_dataset_name_key UNIQUE (name);
ALTER TABLE ONLY sluice.lineage_dataset
    ADD CONSTRAINT lineage_dataset_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice.lineage_edge
    ADD CONSTRAINT lineage_edge_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice.lineage_edge
    ADD CONSTRAINT lineage_edge_target_source_subtype_masking_key UNIQUE (target, source, subtype, masking);
ALTER TABLE ONLY sluice.lineage_queue
    ADD CONSTRAINT lineage_queue_pkey PRIMARY KEY (statement_id);
ALTER TABLE ONLY sluice.lineage_statement
    ADD CONSTRAINT lineage_statement_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice.proof_alarm
    ADD CONSTRAINT proof_alarm_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice.proof_left_out
    ADD CONSTRAINT proof_left_out_pkey PRIMARY KEY (run, reason);
ALTER TABLE ONLY sluice.proof
    ADD CONSTRAINT proof_pkey PRIMARY KEY (run);
ALTER TABLE ONLY sluice.ranger_change
    ADD CONSTRAINT ranger_change_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY sluice.ranger_counter
    ADD CONSTRAINT ranger_counter_pkey PRIMARY KEY (kind);
ALTER TABLE ONLY sluice.ranger_history
    ADD CONSTRAINT ranger_history_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY sluice.ranger_object
    ADD CONSTRAINT ranger_object_guid UNIQUE (kind, service, zone, guid);
ALTER TABLE ONLY sluice.ranger_object
    ADD CONSTRAINT ranger_object_name UNIQUE (kind, service, zone, name);
ALTER TABLE ONLY sluice.ranger_object
    ADD CONSTRAINT ranger_object_pkey PRIMARY KEY (kind, id);
ALTER TABLE ONLY sluice.ranger_plugin
    ADD CONSTRAINT ranger_plugin_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice.ranger_plugin
    ADD CONSTRAINT ranger_plugin_service_plugin_key UNIQUE (service, plugin);
ALTER TABLE ONLY sluice.ranger_version
    ADD CONSTRAINT ranger_version_pkey PRIMARY KEY (service, what);
ALTER TABLE ONLY sluice.recommend_day
    ADD CONSTRAINT recommend_day_pkey PRIMARY KEY (day);
ALTER TABLE ONLY sluice.recommend_seen
    ADD CONSTRAINT recommend_seen_pkey PRIMARY KEY (item);
ALTER TABLE ONLY sluice.recommendation
    ADD CONSTRAINT recommendation_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice.replay
    ADD CONSTRAINT replay_pkey PRIMARY KEY (run);
ALTER TABLE ONLY sluice.replay_unjudged
    ADD CONSTRAINT replay_unjudged_pkey PRIMARY KEY (run, reason);
ALTER TABLE ONLY sluice.rollup_chain
    ADD CONSTRAINT rollup_chain_pkey PRIMARY KEY (gateway);
ALTER TABLE ONLY sluice.rollup_left
    ADD CONSTRAINT rollup_left_pkey PRIMARY KEY (hour);
ALTER TABLE ONLY sluice.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (version);
ALTER TABLE ONLY sluice.source_walk
    ADD CONSTRAINT source_walk_pkey PRIMARY KEY (source);
ALTER TABLE ONLY sluice.tag_decision
    ADD CONSTRAINT tag_decision_pkey PRIMARY KEY (proposal, "time");
ALTER TABLE ONLY sluice.tag_proposal
    ADD CONSTRAINT tag_proposal_catalog_database_table_name_column_name_tag_key UNIQUE (catalog, database, table_name, column_name, tag);
ALTER TABLE ONLY sluice.tag_proposal
    ADD CONSTRAINT tag_proposal_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sluice.tag_state
    ADD CONSTRAINT tag_state_pkey PRIMARY KEY (only_one);
ALTER TABLE ONLY sluice.verification
    ADD CONSTRAINT verification_pkey PRIMARY KEY (run);
CREATE INDEX audit_event_chain ON ONLY sluice.audit_event USING btree (gateway, chain_position) WHERE (chain_position IS NOT NULL);
CREATE INDEX audit_event_20261130_gateway_chain_position_idx ON sluice.audit_event_20261130 USING btree (gateway, chain_position) WHERE (chain_position IS NOT NULL);
CREATE INDEX audit_event_resources ON ONLY sluice.audit_event USING gin (resources);
CREATE INDEX audit_event_20261130_resources_idx ON sluice.audit_event_20261130 USING gin (resources);
CREATE INDEX audit_event_statement ON ONLY sluice.audit_event USING btree (statement_id);
CREATE INDEX audit_event_20261130_statement_id_idx ON sluice.audit_event_20261130 USING btree (statement_id);
CREATE INDEX audit_event_stored ON ONLY sluice.audit_event USING brin (stored_at);
CREATE INDEX audit_event_20261130_stored_at_idx ON sluice.audit_event_20261130 USING brin (stored_at);
CREATE INDEX audit_event_time ON ONLY sluice.audit_event USING btree ("time");
CREATE INDEX audit_event_20261130_time_idx ON sluice.audit_event_20261130 USING btree ("time");
CREATE INDEX audit_event_user ON ONLY sluice.audit_event USING btree (user_name, "time");
CREATE INDEX audit_event_20261130_user_name_time_idx ON sluice.audit_event_20261130 USING btree (user_name, "time");
CREATE INDEX audit_event_20261201_gateway_chain_position_idx ON sluice.audit_event_20261201 USING btree (gateway, chain_position) WHERE (chain_position IS NOT NULL);
CREATE INDEX audit_event_20261201_resources_idx ON sluice.audit_event_20261201 USING gin (resources);
CREATE INDEX audit_event_20261201_statement_id_idx ON sluice.audit_event_20261201 USING btree (statement_id);
CREATE INDEX audit_event_20261201_stored_at_idx ON sluice.audit_event_20261201 USING brin (stored_at);
CREATE INDEX audit_event_20261201_time_idx ON sluice.audit_event_20261201 USING btree ("time");
CREATE INDEX audit_event_20261201_user_name_time_idx ON sluice.audit_event_20261201 USING btree (user_name, "time");
CREATE INDEX audit_event_20261202_gateway_chain_position_idx ON sluice.audit_event_20261202 USING btree (gateway, chain_position) WHERE (chain_position IS NOT NULL);
CREATE INDEX audit_event_20261202_resources_idx ON sluice.audit_event_20261202 USING gin (resources);
CREATE INDEX audit_event_20261202_statement_id_idx ON sluice.audit_event_20261202 USING btree (statement_id);
CREATE INDEX audit_event_20261202_stored_at_idx ON sluice.audit_event_20261202 USING brin (stored_at);
CREATE INDEX audit_event_20261202_time_idx ON sluice.audit_event_20261202 USING btree ("time");
CREATE INDEX audit_event_20261202_user_name_time_idx ON sluice.audit_event_20261202 USING btree (user_name, "time");
CREATE INDEX job_run_job ON sluice.job_run USING btree (job, id);
CREATE INDEX lineage_column_name ON sluice.lineage_column USING btree (name);
CREATE INDEX lineage_edge_changed ON sluice.lineage_edge USING btree (changed_in);
CREATE INDEX lineage_edge_source ON sluice.lineage_edge USING btree (source);
CREATE INDEX lineage_queue_ready ON sluice.lineage_queue USING btree (gateway, ready_at) WHERE (ready_at IS NOT NULL);
CREATE INDEX lineage_statement_time ON sluice.lineage_statement USING btree ("time");
CREATE INDEX ranger_change_time ON sluice.ranger_change USING btree ("time");
CREATE INDEX ranger_change_version ON sluice.ranger_change USING btree (service, version);
CREATE INDEX ranger_history_object ON sluice.ranger_history USING btree (kind, object_id, version);
CREATE INDEX ranger_history_time ON sluice.ranger_history USING btree ("time");
CREATE INDEX ranger_object_of_guid ON sluice.ranger_object USING btree (guid);
CREATE UNIQUE INDEX ranger_object_signature ON sluice.ranger_object USING btree (service, signature) WHERE (signature IS NOT NULL);
CREATE INDEX replay_change_run ON sluice.replay_change USING btree (run);
CREATE INDEX rollup_latency_hour ON sluice.rollup_latency USING btree (hour);
CREATE INDEX rollup_refusal_day ON sluice.rollup_refusal USING btree (day);
CREATE INDEX rollup_refusal_user ON sluice.rollup_refusal USING btree (user_name, day);
CREATE INDEX rollup_statement_day ON sluice.rollup_statement USING btree (day);
CREATE INDEX rollup_statement_user ON sluice.rollup_statement USING btree (user_name, day);
CREATE INDEX rollup_usage_day ON sluice.rollup_usage USING btree (day);
CREATE INDEX rollup_usage_table ON sluice.rollup_usage USING btree (table_name, day);
CREATE INDEX rollup_usage_user ON sluice.rollup_usage USING btree (user_name, day);
CREATE INDEX tag_proposal_state ON sluice.tag_proposal USING btree (state, id);
CREATE INDEX verification_finding_run ON sluice.verification_finding USING btree (run);
ALTER INDEX sluice.audit_event_chain ATTACH PARTITION sluice.audit_event_20261130_gateway_chain_position_idx;
ALTER INDEX sluice.audit_event_pkey ATTACH PARTITION sluice.audit_event_20261130_pkey;
ALTER INDEX sluice.audit_event_resources ATTACH PARTITION sluice.audit_event_20261130_resources_idx;
ALTER INDEX sluice.audit_event_statement ATTACH PARTITION sluice.audit_event_20261130_statement_id_idx;
ALTER INDEX sluice.audit_event_stored ATTACH PARTITION sluice.audit_event_20261130_stored_at_idx;
ALTER INDEX sluice.audit_event_time ATTACH PARTITION sluice.audit_event_20261130_time_idx;
ALTER INDEX sluice.audit_event_user ATTACH PARTITION sluice.audit_event_20261130_user_name_time_idx;
ALTER INDEX sluice.audit_event_chain ATTACH PARTITION sluice.audit_event_20261201_gateway_chain_position_idx;
ALTER INDEX sluice.audit_event_pkey ATTACH PARTITION sluice.audit_event_20261201_pkey;
ALTER INDEX sluice.audit_event_resources ATTACH PARTITION sluice.audit_event_20261201_resources_idx;
ALTER INDEX sluice.audit_event_statement ATTACH PARTITION sluice.audit_event_20261201_statement_id_idx;
ALTER INDEX sluice.audit_event_stored ATTACH PARTITION sluice.audit_event_20261201_stored_at_idx;
ALTER INDEX sluice.audit_event_time ATTACH PARTITION sluice.audit_event_20261201_time_idx;
ALTER INDEX sluice.audit_event_user ATTACH PARTITION sluice.audit_event_20261201_user_name_time_idx;
ALTER INDEX sluice.audit_event_chain ATTACH PARTITION sluice.audit_event_20261202_gateway_chain_position_idx;
ALTER INDEX sluice.audit_event_pkey ATTACH PARTITION sluice.audit_event_20261202_pkey;
ALTER INDEX sluice.audit_event_resources ATTACH PARTITION sluice.audit_event_20261202_resources_idx;
ALTER INDEX sluice.audit_event_statement ATTACH PARTITION sluice.audit_event_20261202_statement_id_idx;
ALTER INDEX sluice.audit_event_stored ATTACH PARTITION sluice.audit_event_20261202_stored_at_idx;
ALTER INDEX sluice.audit_event_time ATTACH PARTITION sluice.audit_event_20261202_time_idx;
ALTER INDEX sluice.audit_event_user ATTACH PARTITION sluice.audit_event_20261202_user_name_time_idx;
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON sluice.audit_erasure FOR EACH ROW EXECUTE FUNCTION sluice.refuse_erasure_change();
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON sluice.audit_event FOR EACH ROW EXECUTE FUNCTION sluice.refuse_change();
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON sluice.audit_seal FOR EACH ROW EXECUTE FUNCTION sluice.refuse_seal_change();
CREATE TRIGGER not_rewritten BEFORE UPDATE ON sluice.ranger_history FOR EACH ROW EXECUTE FUNCTION sluice.refuse_rewriting();
ALTER TABLE ONLY sluice.archive_chain
    ADD CONSTRAINT archive_chain_day_fkey FOREIGN KEY (day) REFERENCES sluice.archive_day(day) ON DELETE CASCADE;
ALTER TABLE ONLY sluice.classified_table
    ADD CONSTRAINT classified_table_run_fkey FOREIGN KEY (run) REFERENCES sluice.job_run(id);
ALTER TABLE ONLY sluice.closure_state
    ADD CONSTRAINT closure_state_run_fkey FOREIGN KEY (run) REFERENCES sluice.job_run(id);
ALTER TABLE ONLY sluice.gateway_answer
    ADD CONSTRAINT gateway_answer_request_fkey FOREIGN KEY (request) REFERENCES sluice.gateway_request(id) ON DELETE CASCADE;
ALTER TABLE ONLY sluice.job_partition
    ADD CONSTRAINT job_partition_run_fkey FOREIGN KEY (run) REFERENCES sluice.job_run(id);
ALTER TABLE ONLY sluice.job_watermark
    ADD CONSTRAINT job_watermark_run_fkey FOREIGN KEY (run) REFERENCES sluice.job_run(id);
ALTER TABLE ONLY sluice.lineage_column
    ADD CONSTRAINT lineage_column_dataset_fkey FOREIGN KEY (dataset) REFERENCES sluice.lineage_dataset(id) ON DELETE CASCADE;
ALTER TABLE ONLY sluice.lineage_edge
    ADD CONSTRAINT lineage_edge_source_fkey FOREIGN KEY (source) REFERENCES sluice.lineage_column(id) ON DELETE CASCADE;
ALTER TABLE ONLY sluice.lineage_edge
    ADD CONSTRAINT lineage_edge_target_fkey FOREIGN KEY (target) REFERENCES sluice.lineage_column(id) ON DELETE CASCADE;
ALTER TABLE ONLY sluice.proof_alarm
    ADD CONSTRAINT proof_alarm_run_fkey FOREIGN KEY (run) REFERENCES sluice.job_run(id);
ALTER TABLE ONLY sluice.proof_left_out
    ADD CONSTRAINT proof_left_out_run_fkey FOREIGN KEY (run) REFERENCES sluice.proof(run) ON DELETE CASCADE;
ALTER TABLE ONLY sluice.proof
    ADD CONSTRAINT proof_run_fkey FOREIGN KEY (run) REFERENCES sluice.job_run(id);
ALTER TABLE ONLY sluice.recommendation
    ADD CONSTRAINT recommendation_run_fkey FOREIGN KEY (run) REFERENCES sluice.job_run(id);
ALTER TABLE ONLY sluice.replay_change
    ADD CONSTRAINT replay_change_run_fkey FOREIGN KEY (run) REFERENCES sluice.replay(run) ON DELETE CASCADE;
ALTER TABLE ONLY sluice.replay
    ADD CONSTRAINT replay_run_fkey FOREIGN KEY (run) REFERENCES sluice.job_run(id);
ALTER TABLE ONLY sluice.replay_unjudged
    ADD CONSTRAINT replay_unjudged_run_fkey FOREIGN KEY (run) REFERENCES sluice.replay(run) ON DELETE CASCADE;
ALTER TABLE ONLY sluice.tag_decision
    ADD CONSTRAINT tag_decision_proposal_fkey FOREIGN KEY (proposal) REFERENCES sluice.tag_proposal(id) ON DELETE CASCADE;
ALTER TABLE ONLY sluice.verification_finding
    ADD CONSTRAINT verification_finding_run_fkey FOREIGN KEY (run) REFERENCES sluice.verification(run) ON DELETE CASCADE;
ALTER TABLE ONLY sluice.verification
    ADD CONSTRAINT verification_run_fkey FOREIGN KEY (run) REFERENCES sluice.job_run(id);
