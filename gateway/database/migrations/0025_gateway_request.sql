-- What is asked of all gateways that run, and what each answers. Whoever asked removes both.
CREATE TABLE sluice.gateway_request (
    id uuid PRIMARY KEY,
    asked_at timestamptz NOT NULL DEFAULT now(),
    body jsonb NOT NULL
);
CREATE TABLE sluice.gateway_answer (
    request uuid NOT NULL REFERENCES sluice.gateway_request ON DELETE CASCADE,
    gateway text NOT NULL,
    body jsonb NOT NULL,
    PRIMARY KEY (request, gateway)
);
