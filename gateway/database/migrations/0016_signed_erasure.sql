-- Ed25519 over who erased what, with the key of seals: whoever has the database alone cannot have erased anything.
-- Null where it was erased without the key, and before there was this column.
ALTER TABLE sluice.audit_erasure ADD COLUMN signature text;

CREATE FUNCTION sluice.refuse_erasure_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'sluice.audit_erasure is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON sluice.audit_erasure
    FOR EACH ROW EXECUTE FUNCTION sluice.refuse_erasure_change();
