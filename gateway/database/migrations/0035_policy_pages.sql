-- When a policy last decided something: noted with the record itself, so that nobody has to look through that.
CREATE TABLE sluice.policy_use (
    -- The name as the record has it; of policies of one name in two services they are one.
    policy     text        PRIMARY KEY,
    first_at   timestamptz NOT NULL,
    -- Of what follows within a minute nothing is noted.
    last_at    timestamptz NOT NULL
);
-- Since when it is noted.
CREATE TABLE sluice.policy_use_since (
    only_one   boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    since      timestamptz NOT NULL DEFAULT now()
);
INSERT INTO sluice.policy_use_since DEFAULT VALUES;

-- The texts of packs as they were in force, each once.
CREATE TABLE sluice.pack_text (
    sha256     text        PRIMARY KEY,
    text       text        NOT NULL
);
CREATE TABLE sluice.pack_version (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seen_at    timestamptz NOT NULL DEFAULT now(),
    gateway    text        NOT NULL,
    -- As the record has it in `snapshot`.
    digest     text        NOT NULL,
    -- An object: file → the digest of its text.
    packs      jsonb       NOT NULL
);
CREATE INDEX pack_version_time ON sluice.pack_version (seen_at);

-- Policies and packs that somebody is writing, and that are in force nowhere.
CREATE TABLE sluice.policy_draft (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner      text        NOT NULL,
    -- `pack` or `policy`.
    kind       text        NOT NULL CHECK (kind IN ('pack', 'policy')),
    -- The pack's file, or the policy's service.
    target     text        NOT NULL,
    title      text        NOT NULL,
    text       text        NOT NULL,
    made_at    timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX policy_draft_owner ON sluice.policy_draft (owner, changed_at);
