-- How many sessions and running statements of a limit each gateway may have at once, and how many it would.
CREATE TABLE sluice.limit_share (
    limit_name text NOT NULL,
    subject text NOT NULL,
    measure text NOT NULL,
    gateway text NOT NULL,
    share integer NOT NULL,
    wanted integer NOT NULL,
    -- Since when it has had less than it wants.
    waits_since timestamptz,
    PRIMARY KEY (limit_name, subject, measure, gateway)
);
CREATE INDEX limit_share_gateway ON sluice.limit_share (gateway);

-- Takes or gives back shares of a gateway: never less than it uses, and no more than the limit leaves beside the
-- gateways that live and those that have waited for longer.
CREATE FUNCTION sluice.share_limits(
    asking text, limits text[], subjects text[], measures text[], allowed integer[], used integer[],
    demanded integer[], lease_s double precision
) RETURNS TABLE (place integer, granted integer, contended boolean) LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
    others_wanted bigint;
    waited_longer bigint;
    since timestamptz;
BEGIN
    FOR at IN 1 .. cardinality(limits) LOOP
        place := at;
        PERFORM pg_advisory_xact_lock(
            hashtextextended(concat_ws(chr(31), measures[place], limits[place], subjects[place]), 39)
        );
        SELECT coalesce(waits_since, clock_timestamp()) INTO since FROM sluice.limit_share s
            WHERE s.limit_name = limits[place] AND s.subject = subjects[place]
                AND s.measure = measures[place] AND s.gateway = asking;
        since := coalesce(since, clock_timestamp());
        SELECT coalesce(sum(s.share), 0), coalesce(sum(s.wanted), 0),
            coalesce(sum(greatest(s.wanted - s.share, 0)) FILTER (WHERE s.waits_since < since), 0)
            INTO held, others_wanted, waited_longer
            FROM sluice.limit_share s JOIN sluice.gateway g ON g.gateway = s.gateway
            WHERE s.limit_name = limits[place] AND s.subject = subjects[place]
                AND s.measure = measures[place] AND s.gateway <> asking
                AND g.seen_at > clock_timestamp() - make_interval(secs => lease_s);
        granted := greatest(used[place], least(demanded[place], allowed[place] - held - waited_longer), 0);
        contended := others_wanted + demanded[place] > allowed[place];
        IF granted = 0 AND demanded[place] = 0 THEN
            DELETE FROM sluice.limit_share s
                WHERE s.limit_name = limits[place] AND s.subject = subjects[place]
                    AND s.measure = measures[place] AND s.gateway = asking;
        ELSE
            INSERT INTO sluice.limit_share AS s
                (limit_name, subject, measure, gateway, share, wanted, waits_since)
            VALUES (limits[place], subjects[place], measures[place], asking, granted, demanded[place],
                CASE WHEN granted < demanded[place] THEN since END)
            ON CONFLICT (limit_name, subject, measure, gateway) DO UPDATE
                SET share = excluded.share, wanted = excluded.wanted, waits_since = excluded.waits_since;
        END IF;
        RETURN NEXT;
    END LOOP;
END;
$$;
