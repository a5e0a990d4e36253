# Columns that nobody names.
== stars
SELECT * FROM {table}
SELECT {t}.* FROM {table}
SELECT {db}.{t}.* FROM {table}
SELECT * EXCEPT (id) FROM {table}
SELECT * EXCEPT (id, home.street) FROM {table}
SELECT * EXCEPT ({secret}) FROM {table}
SELECT * EXCEPT (nope) FROM {table}
SELECT struct(*) FROM {table}
SELECT struct(* EXCEPT (id)) FROM {table}
SELECT array({t}.name, {t}.{secret}) FROM {table}
SELECT coalesce(*) FROM (SELECT {secret}, name FROM {table})
SELECT concat_ws('|', *) FROM (SELECT name, {secret} FROM {table})
SELECT greatest(*), least(*) FROM (SELECT name, {secret} FROM {table})
SELECT count(*), count({t}.*), count(DISTINCT *) FROM (SELECT id, {secret} FROM {table}) {t}
SELECT hash(*), xxhash64(*) FROM {table}
SELECT to_json(struct(*)) FROM {table}
SELECT named_struct('r', struct(*)) FROM {table}
SELECT 'x' IN (*) FROM (SELECT name, {secret} FROM {table})
SELECT id FROM {table} WHERE struct(*) IS NOT NULL
SELECT id FROM {table} WHERE coalesce(*) IS NOT NULL
SELECT id FROM {table} ORDER BY struct(*)
SELECT * FROM {table} ORDER BY ALL
SELECT id, {secret} FROM {table} GROUP BY ALL
SELECT *, * FROM {table}
SELECT first(struct(*)) FROM {table} WHERE id = 1
SELECT explode(array(struct(*))) FROM {table}
SELECT inline(array(struct(*))) FROM {table}
SELECT stack(2, id, name, id, {secret}) FROM {table}
SELECT (SELECT struct(*) FROM {table} WHERE id = 1)
SELECT * FROM {table} x JOIN {table} y ON x.id = y.id
SELECT x.*, y.* EXCEPT (id) FROM {table} x, {table} y WHERE x.id = y.id
SELECT schema_of_json(to_json(struct(*))), typeof(struct(*)) FROM {table} WHERE id = 1
SELECT `.*` FROM {table}
SELECT `(id)?+.+` FROM {table}
SELECT `.*{secret}.*` FROM {table}
SELECT max(struct(*)) FROM (SELECT {secret}, id FROM {table})
SELECT map_from_arrays(array('a', 'b'), array(name, {secret})) FROM {table}
SELECT json_tuple(to_json(struct(*)), '{secret}') FROM {table}
SELECT get_json_object(to_json(struct(*)), '$.{secret}') FROM {table}
SELECT variant_get(to_variant_object(struct(*)), '$.{secret}', 'string') FROM {table}
SELECT s.* FROM (SELECT struct(*) s FROM {table})
SELECT s:{secret} FROM (SELECT parse_json(to_json(struct(*))) s FROM {table})
