-- Keys that all gateways of this database sign by, each made by the gateway that needs it first.
CREATE TABLE sluice.fleet_key (
    name text PRIMARY KEY,
    key bytea NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);
