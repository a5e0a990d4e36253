-- How far the record has been forwarded to each target, by the chain of each gateway. The row without a gateway
-- says that the target is known: chains that begin later are forwarded from their beginning.
CREATE TABLE sluice.audit_forward (
    target   text   NOT NULL,
    gateway  text   NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (target, gateway)
);
