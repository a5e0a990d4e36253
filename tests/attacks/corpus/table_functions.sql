# Functions that give tables, and functions that take them.
== over the table
SELECT * FROM explode((SELECT collect_list({secret}) FROM {table}))
SELECT * FROM explode(TABLE({table}))
SELECT * FROM explode(collection => (SELECT max(tags) FROM {table}))
SELECT * FROM f(TABLE({table}))
SELECT * FROM f(TABLE({table}) PARTITION BY region ORDER BY id)
SELECT * FROM f(TABLE(SELECT * FROM {table}))
SELECT * FROM range(0, (SELECT count(*) FROM {table}), 1000)
SELECT * FROM inline(array(struct(1, 'x'))) JOIN {table} ON true
SELECT t.* FROM {table} s, LATERAL stack(1, s.{secret}, s.home.street) AS t(a, b)
SELECT * FROM {table}, LATERAL posexplode(map_values(props))
SELECT * FROM {table}, LATERAL inline(array(home))
SELECT json_tuple(to_json(home), 'street') FROM {table}
SELECT x.* FROM {table}, LATERAL json_tuple(to_json(home), 'street') x
SELECT * FROM {table}, LATERAL variant_explode(to_variant_object(struct(tags)))
SELECT * FROM variant_explode((SELECT to_variant_object(home) FROM {table} WHERE id = 1))
SELECT collations.* FROM collations() WHERE 1 = 0
SELECT * FROM sql_keywords() LIMIT 1
SELECT * FROM read_files('{path}')
SELECT * FROM python_worker_logs()
SELECT * FROM {table}(1)
SELECT * FROM nope(1)
SELECT * FROM {db}.nope((SELECT max({secret}) FROM {table}))
SELECT * FROM STREAM {table}
SELECT * FROM STREAM({table})
SELECT * FROM LATERAL {table}
SELECT * FROM {table} TABLESAMPLE (100 PERCENT)
SELECT count(*) FROM {table} TABLESAMPLE (100000 ROWS)
SELECT count(*) FROM {table} TABLESAMPLE (BUCKET 1 OUT OF 1)
SELECT * FROM {table} TABLESAMPLE (BUCKET 1 OUT OF 1 ON id)
SELECT id FROM {table} TABLESAMPLE SYSTEM (100 PERCENT)
SELECT * FROM {table} TABLESAMPLE (100 PERCENT) REPEATABLE (1)
SELECT * FROM {table} VERSION AS OF 1
SELECT * FROM {table} TIMESTAMP AS OF current_timestamp()
SELECT * FROM {table} FOR SYSTEM_VERSION AS OF 0
SELECT * FROM {table} WITH (`path` = '/etc')
SELECT * FROM {table}.files
SELECT * FROM {table}.partitions
SELECT * FROM {table}.snapshots
SELECT * FROM `{db}`.`{t}$files`
SELECT * FROM {table} CHANGES FROM VERSION 1 TO VERSION 2
