-- What the Ranger-compatible admin API keeps. Every object is one row; its body is the object in Ranger's own
-- JSON shape, and the columns beside it are what uniqueness and look-ups need.
CREATE TABLE sluice.ranger_object (
    kind       text   NOT NULL,
    id         bigint NOT NULL,
    guid       text   NOT NULL,
    name       text   NOT NULL,
    -- Of policies; empty for everything else.
    service    text   NOT NULL DEFAULT '',
    zone       text   NOT NULL DEFAULT '',
    -- Ranger's signature of a policy's resources: two enabled policies of one service may not share it.
    signature  text,
    version    bigint NOT NULL,
    body       jsonb  NOT NULL,
    PRIMARY KEY (kind, id),
    CONSTRAINT ranger_object_name UNIQUE (kind, service, zone, name),
    CONSTRAINT ranger_object_guid UNIQUE (kind, service, zone, guid)
);

CREATE UNIQUE INDEX ranger_object_signature ON sluice.ranger_object (service, signature)
    WHERE signature IS NOT NULL;
CREATE INDEX ranger_object_of_guid ON sluice.ranger_object (guid);

COMMENT ON TABLE sluice.ranger_object IS 'Service definitions, services, policies, roles, zones, tags, users';

-- Ids as Ranger counts them, one row of numbers for each kind; never given out twice.
CREATE TABLE sluice.ranger_counter (
    kind text   PRIMARY KEY,
    last bigint NOT NULL
);

-- Who changed what, and when: written in the transaction of the change itself.
CREATE TABLE sluice.ranger_history (
    sequence  bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time      timestamptz NOT NULL,
    who       text        NOT NULL,
    action    text        NOT NULL,
    kind      text        NOT NULL,
    object_id bigint      NOT NULL,
    name      text        NOT NULL,
    service   text        NOT NULL,
    version   bigint      NOT NULL,
    before    jsonb,
    after     jsonb
);

CREATE INDEX ranger_history_object ON sluice.ranger_history (kind, object_id, version);
CREATE INDEX ranger_history_time ON sluice.ranger_history (time);

CREATE FUNCTION sluice.refuse_rewriting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'sluice.ranger_history is not rewritten' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER not_rewritten BEFORE UPDATE ON sluice.ranger_history
    FOR EACH ROW EXECUTE FUNCTION sluice.refuse_rewriting();

-- What plugins ask with: version and time of a service's policies, tags, roles and users.
CREATE TABLE sluice.ranger_version (
    service    text   NOT NULL,
    what       text   NOT NULL,
    version    bigint NOT NULL,
    updated_ms bigint NOT NULL,
    PRIMARY KEY (service, what)
);

-- What each version of a service's policies changed, for downloads of differences.
CREATE TABLE sluice.ranger_change (
    sequence bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    service  text        NOT NULL,
    version  bigint      NOT NULL,
    -- 0 created, 1 updated, 2 deleted; anything else cannot be told as a difference.
    change   smallint    NOT NULL,
    body     jsonb,
    time     timestamptz NOT NULL
);

CREATE INDEX ranger_change_version ON sluice.ranger_change (service, version);
CREATE INDEX ranger_change_time ON sluice.ranger_change (time);

-- Who downloads; told by the downloads themselves.
CREATE TABLE sluice.ranger_plugin (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    service text   NOT NULL,
    plugin  text   NOT NULL,
    address text   NOT NULL,
    created_ms bigint NOT NULL,
    updated_ms bigint NOT NULL,
    info    jsonb  NOT NULL,
    UNIQUE (service, plugin)
);
