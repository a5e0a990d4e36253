# Errors as oracles: whether one comes, and what it says, must not depend on what is hidden.
== on hidden rows
SELECT 1 / (id - {hidden_id}) FROM {table}
SELECT id FROM {table} WHERE 1 / (id - {hidden_id}) > 0
SELECT count(*) FROM {table} WHERE 1 / (id - {hidden_id}) IS NULL
SELECT CASE WHEN region = '{region}' THEN 1 / 0 ELSE 1 END FROM {table}
SELECT id FROM {table} WHERE CASE WHEN region NOT IN ('EMEA', 'APAC') THEN raise_error('hidden') ELSE true END
SELECT id FROM {table} WHERE if(region = '{region}', CAST('x' AS INT) = 1, true)
SELECT if(region = '{region}', raise_error(name), 1) FROM {table}
SELECT assert_true(region <> '{region}', name) FROM {table}
SELECT id FROM {table} WHERE assert_true(region <> '{region}') IS NULL
SELECT id FROM {table} WHERE region = '{region}' AND raise_error(name) IS NULL
== of rows that one sees, before a partition that one does not is left out [loose]
SELECT id FROM {table} WHERE raise_error({secret}) IS NULL AND region = '{region}'
== on hidden rows
SELECT element_at(array(1, 2, 3), id % 1000) FROM {table} WHERE id > 100
SELECT id FROM {table} WHERE element_at(array(1, 2, 3, 4, 5, 6), id) > 0
SELECT array(1, 2, 3, 4, 5, 6, 7)[id] FROM {table}
SELECT id * 3 FROM {table}
SELECT id + 2000000000 FROM {table} WHERE region <> 'x'
SELECT CAST(id AS TINYINT), CAST(id AS SMALLINT) FROM {table}
SELECT sum(CAST(id AS TINYINT)) FROM {table}
SELECT CAST(region AS INT) FROM {table} WHERE region LIKE 'Q%'
SELECT id FROM {table} WHERE CAST(substr(region, 1, 1) AS INT) = 1
SELECT o.id FROM {open} o JOIN {table} t ON o.id = t.id AND 1 / (t.id - {hidden_id}) < 1
SELECT o.id FROM {open} o LEFT JOIN {table} t ON o.id = t.id WHERE 1 / (coalesce(t.id, 1) - {hidden_id}) < 1
SELECT o.id FROM {open} o WHERE EXISTS (SELECT 1 FROM {table} t WHERE t.id > o.id AND 1 / (t.id - {hidden_id}) <> 0)
SELECT * FROM (SELECT *, 1 / (id - {hidden_id}) AS d FROM {table}) WHERE region = 'EMEA'
SELECT max(1 / (id - {hidden_id})) FROM {table} GROUP BY region
SELECT sum(1 / (id - {hidden_id})) OVER () FROM {table}
SELECT id FROM {table} ORDER BY 1 / (id - {hidden_id}), id
SELECT id FROM {table} WHERE region = 'EMEA' AND 1 / (id - {hidden_id}) < 1 AND region = 'EMEA'
SELECT id FROM {table} WHERE id = {hidden_id} AND 1 / (id - {hidden_id}) < 1
SELECT id FROM {table} WHERE id IN (SELECT id FROM {table} WHERE 1 / (id - {hidden_id}) < 1)
SELECT id FROM {table} LIMIT CAST((SELECT count(*) FROM {table}) AS INT)
SET spark.sql.ansi.enabled=false ;; SELECT 1 / (id - {hidden_id}), CAST(region AS INT), id * 3 FROM {table}
SET spark.sql.ansi.enabled=true ;; SELECT 1 / (id - {hidden_id}) FROM {table}
SET spark.sql.codegen.wholeStage=true ;; SELECT id FROM {table} WHERE 1 / (id - {hidden_id}) <> 0
== of values that are masked
SELECT raise_error({secret}) FROM {table}
SELECT raise_error(concat(name, {secret}, amount)) FROM {table}
SELECT raise_error('USER_RAISED_EXCEPTION', map('errorMessage', {secret})) FROM {table}
SELECT assert_true(false, {secret}) FROM {table}
SELECT CAST({secret} AS INT) FROM {table}
SELECT id FROM {table} WHERE CAST({secret} AS DATE) IS NOT NULL
SELECT CAST(amount AS TINYINT), amount * 1000000 FROM {table}
SELECT 1 / (amount - 913370001) FROM {table}
SELECT 1 / (amount - 1) FROM {table}
SELECT 1 / (length({secret}) - 13) FROM {table}
SELECT 1 / (day(born) - 11) FROM {table}
SELECT 1 / (size(tags) - 2), 1 / (home.zip - 913370001) FROM {table}
SELECT element_at(tags, 2), tags[1] FROM {table} WHERE tags IS NOT NULL
SELECT element_at(props, 'k') / 0 FROM {table}
SELECT to_date({secret}, 'yyyy'), to_timestamp({secret}) FROM {table}
SELECT to_number({secret}, '999') FROM {table}
SELECT to_binary({secret}, 'hex'), unbase64({secret}) FROM {table}
SELECT parse_json({secret}) FROM {table}
SELECT from_json({secret}, 'a INT', map('mode', 'FAILFAST')) FROM {table}
SELECT from_csv({secret}, 'a INT', map('mode', 'FAILFAST')) FROM {table}
SELECT from_xml({secret}, 'a INT', map('mode', 'FAILFAST')) FROM {table}
SELECT make_date(amount, 1, 1), date_add(born, amount) FROM {table}
SELECT sequence(1, amount) FROM {table}
SELECT 'x' RLIKE {secret}, regexp_extract('x', {secret}, 1), regexp_replace('x', {secret} || '(', 'y') FROM {table}
SELECT name LIKE {secret} ESCAPE '-' FROM {table}
SELECT decode({secret}, 'nope'), encode({secret}, {secret}) FROM {table}
SELECT aes_encrypt('a', {secret}), aes_decrypt({secret}, '0000111122223333') FROM {table}
SELECT conv({secret}, 36, 10), bround(amount, 100), factorial(amount) FROM {table}
SELECT from_utc_timestamp(TIMESTAMP'2020-01-01 00:00:00', {secret}) FROM {table}
SELECT date_trunc({secret}, TIMESTAMP'2020-01-01 00:00:00'), trunc(born, {secret}) FROM {table}
SELECT format_string({secret}, 1), format_number(amount, {secret}) FROM {table}
SELECT url_decode({secret}), parse_url({secret}, 'HOST'), try_parse_url({secret}, 'HOST') FROM {table}
SELECT map(name, 1, {secret}, 2) FROM {table}
SELECT map_from_arrays(tags, array(1)) FROM {table}
SELECT str_to_map({secret}, '-', '-') FROM {table}
SELECT CAST({secret} AS VARIANT)::INT, variant_get(to_variant_object(home), '$.street', 'int') FROM {table}
SELECT validate_utf8({secret}), make_valid_utf8(CAST(X'FF' AS STRING) || {secret}) FROM {table}
SELECT bit_get(amount, 99), shiftleft(amount, 3), amount % 0 FROM {table}
SELECT INTERVAL '1' DAY * amount * amount FROM {table}
SELECT {secret} COLLATE nope FROM {table}
SELECT st_asbinary(st_geogfromwkb(CAST({secret} AS BINARY))) FROM {table}
SELECT (SELECT {secret} FROM {table}), 1
SELECT id, randstr(amount), uniform(amount, 1) FROM {table}
SELECT nope, {secret} FROM {table} WHERE region = 'EMEA'
SELECT {secret}.nope FROM {table}
SELECT home.nope, home.stret FROM {table}
SELECT secre, amont, ragion FROM {table}
SELECT {secret} + 1, -name, NOT region FROM {table}
SELECT sum(name), avg({secret}), sum(home) FROM {table}
