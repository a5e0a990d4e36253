-- Recommendations: changes to policies that the roll-ups speak for, and what administrators decided of them.

-- Days of the roll-ups that `recommend_use` of the lake has, and of which runs they were made.
CREATE TABLE sluice.recommend_day (
    day    date   PRIMARY KEY,
    -- A digest of the hours that the roll-ups had of the day, and of the runs that wrote them.
    source text   NOT NULL,
    rows   bigint NOT NULL
);

-- When a grant or an exemption was first there: nobody can have used what is new.
CREATE TABLE sluice.recommend_seen (
    -- A digest of the item, its policy's name and what that is on.
    item       text        PRIMARY KEY,
    first_seen timestamptz NOT NULL
);

CREATE TABLE sluice.recommendation (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind        text        NOT NULL,
    -- What it is about; with the kind, the same in every run.
    subject     text        NOT NULL,
    title       text        NOT NULL,
    state       text        NOT NULL CHECK (state IN ('proposed', 'rejected', 'applied')),
    -- An object: `edits` of a pack, and `cases` that hold after them.
    change      jsonb       NOT NULL,
    -- A digest of the edits; what was rejected is proposed again when they are others.
    basis       text        NOT NULL,
    -- Numbers, first and last use, who.
    evidence    jsonb       NOT NULL,
    run         bigint      NOT NULL REFERENCES sluice.job_run,
    proposed_at timestamptz NOT NULL,
    decided_at  timestamptz,
    decided_by  text        NOT NULL DEFAULT '',
    UNIQUE (kind, subject)
);

COMMENT ON TABLE sluice.recommendation IS 'Changes to policies that the use of them speaks for';

-- The closure of the lineage graph: what the tables of the lake were made of, and the columns that tags reach.
CREATE TABLE sluice.closure_state (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    -- A digest of the graph, tags, rules and settings.
    basis    text    NOT NULL,
    run      bigint  NOT NULL REFERENCES sluice.job_run,
    columns  bigint  NOT NULL,
    edges    bigint  NOT NULL,
    -- Pairs of a column and one that feeds it.
    pairs    bigint  NOT NULL,
    -- Why there may be more; empty when this is all.
    cut_off  text    NOT NULL DEFAULT ''
);

-- Columns that the values of a tagged one reach, unmasked, and that do not have the tag.
CREATE TABLE sluice.closure_finding (
    table_name  text   NOT NULL,
    column_name text   NOT NULL,
    tag         text   NOT NULL,
    -- `carry`, or `ask` where somebody has to look.
    how         text   NOT NULL,
    -- Tagged columns that it comes from, and the nearest of them, so many steps away.
    sources     bigint NOT NULL,
    source      text   NOT NULL,
    distance    bigint NOT NULL,
    PRIMARY KEY (table_name, column_name, tag)
);

COMMENT ON TABLE sluice.closure_finding IS 'Columns that have the values of tagged ones, and not the tag';
