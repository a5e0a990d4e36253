-- Gateways that share the database, each with its last sign of life.
CREATE TABLE sluice.gateway (
    gateway text PRIMARY KEY,
    seen_at timestamptz NOT NULL
);
-- Names of the catalog that a gateway changes; the others hold them until the row is gone.
CREATE TABLE sluice.name_hold (
    id uuid PRIMARY KEY,
    gateway text NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    body jsonb NOT NULL
);
CREATE TABLE sluice.name_hold_taken (
    hold uuid NOT NULL REFERENCES sluice.name_hold ON DELETE CASCADE,
    gateway text NOT NULL,
    PRIMARY KEY (hold, gateway)
);
-- What is asked of one gateway alone; NULL: of all.
ALTER TABLE sluice.gateway_request ADD COLUMN for_gateway text;
