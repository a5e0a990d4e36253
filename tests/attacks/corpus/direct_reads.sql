# The table, plainly, in every spelling that SQL has for it.
== one column
SELECT {secret} FROM {table}
SELECT id, {secret} FROM {t}
SELECT {t}.{secret} FROM {table}
SELECT {table}.{secret} FROM {table}
SELECT spark_catalog.{table}.{secret} FROM spark_catalog.{table}
SELECT `{secret}` FROM `{db}`.`{t}`
SELECT id, amount, born FROM {table}
SELECT home.street, home['zip'], tags[0], props['k'] FROM {table}
SELECT home.* FROM {table}
SELECT ALL {secret} FROM ({table})
== without SELECT
TABLE {table}
(TABLE {t})
FROM {table}
FROM {table} SELECT id, region
FROM {table} t SELECT t.*
SELECT * FROM (TABLE {table}) x
VALUES ((SELECT max(name) FROM {table}))
== rows that are filtered out
SELECT count(*) FROM {table}
SELECT * FROM {table} WHERE id = {hidden_id}
SELECT * FROM {table} WHERE region = '{region}'
SELECT count(*) FROM {table} WHERE region <> 'EMEA'
SELECT region, count(*) FROM {table} GROUP BY region
SELECT DISTINCT region FROM {table}
SELECT max(id), min(id), sum(id), count(DISTINCT id) FROM {table}
SELECT approx_count_distinct(id), bit_xor(id), regr_count(id, amount) FROM {table}
SELECT 1 FROM {table}
SELECT FROM_UNIXTIME(0) IS NULL FROM {table} LIMIT 10
SELECT count(1) FROM {table} HAVING count(1) > 1000
SELECT 1 FROM {table} GROUP BY region HAVING sum(1) > 7000
SELECT id FROM {table} LIMIT 5 OFFSET 6
SELECT * FROM {table} WHERE true OR region IS NULL
SELECT count_if(region = '{region}'), bool_or(region = '{region}') FROM {table}
== a value that is known, to be confirmed
SELECT id FROM {table} WHERE {secret} = '{guess}'
SELECT count(*) FROM {table} WHERE {secret} LIKE 'Q%'
SELECT id FROM {table} WHERE {secret} BETWEEN 'P' AND 'R'
SELECT id FROM {table} WHERE amount > 1000000
SELECT id FROM {table} WHERE born = DATE'1971-03-11'
SELECT id FROM {table} WHERE {secret} IN ('{guess}', 'x')
SELECT id FROM {table} WHERE '{guess}' IN ({secret}, name)
SELECT id FROM {table} WHERE array_contains(tags, 'QZXJWKVBM-t1')
SELECT id FROM {table} WHERE home.street LIKE 'QZ%' OR home.zip > 100
SELECT id FROM {table} WHERE map_contains_key(props, 'k') AND props['k'] > 1000
SELECT id, {secret} = '{guess}' AS hit FROM {table}
SELECT id, length({secret}), hash({secret}), crc32({secret}) FROM {table}
SELECT id FROM {table} WHERE {secret} IS NULL
SELECT id FROM {table} WHERE {secret} IS NOT DISTINCT FROM '{guess}'
SELECT id FROM {table} ORDER BY {secret}, id
SELECT id, ntile(3) OVER (ORDER BY amount, id) FROM {table}
SELECT CASE WHEN {secret} LIKE '{guess}' THEN 1 / 0 ELSE 0 END FROM {table}
SELECT max_by(id, {secret}), min_by(id, amount) FROM {table} WHERE id = 1
SELECT mode(amount), percentile(amount, 0.5), median(amount) FROM {table}
SELECT listagg({secret}, ',') WITHIN GROUP (ORDER BY id) FROM {table}
SELECT string_agg(name, ',') FROM {table}
SELECT sort_array(collect_set({secret})) FROM {table}
== the same, encoded
SELECT hex({secret}), base64({secret}), reverse({secret}), md5({secret}), sha1({secret}) FROM {table}
SELECT encode({secret}, 'UTF-16'), unhex(hex({secret})), to_binary({secret}, 'utf-8') FROM {table}
SELECT transform(split({secret}, ''), c -> ascii(c)) FROM {table}
SELECT split({secret}, '-'), substr({secret}, 2), lower({secret}), initcap({secret}) FROM {table}
SELECT to_json(struct({secret}, amount)), to_csv(struct(id, {secret})), to_xml(struct({secret})) FROM {table}
SELECT to_variant_object(struct({secret}, amount)) FROM {table}
SELECT soundex({secret}), levenshtein({secret}, '{guess}'), locate('Q', {secret}) FROM {table}
SELECT aes_decrypt(aes_encrypt({secret}, '0000111122223333'), '0000111122223333') FROM {table}
SELECT {secret} || '', {secret}::binary, cast({secret} AS varchar(100)) FROM {table}
SELECT url_encode({secret}), quote({secret}), printf('%s', {secret}), format_string('%d', amount) FROM {table}
SELECT bin(amount), conv(amount, 10, 36), amount::string, date_format(born, 'MM-dd'), dayofyear(born) FROM {table}
SELECT unix_date(born), born - DATE'1970-01-01', datediff(born, DATE'1970-01-01'), months_between(born, DATE'1970-01-01') FROM {table}
