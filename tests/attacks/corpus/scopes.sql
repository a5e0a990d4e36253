# Names that mean something else than they seem to: aliases, shadows, columns of relations around.
== aliases
SELECT x.{secret} FROM {table} AS x
SELECT x.{secret} FROM {table} x, {open} {t}
SELECT {t}.id FROM {open} AS {t}
SELECT open.id, open.{secret} FROM {table} AS open
SELECT a, b FROM {table} AS t(a, b, c, d, e, f, g, h, i)
SELECT c FROM {table} AS t(a, b, c, d, e, f, g, h, i)
SELECT `{db}.{t}`.id FROM {table} AS `{db}.{t}`
SELECT {t}.{t} FROM (SELECT {secret} AS {t} FROM {table}) {t}
SELECT * FROM {table} AS `x y`, {open} AS `x y z`
SELECT t.id FROM {table} t JOIN {table} t USING (id)
SELECT {secret} AS id, id AS {secret} FROM {table} ORDER BY id
SELECT id AS a, a + 1 AS b, b * 2 AS {secret} FROM {table}
SELECT upper(x) FROM (SELECT {secret} x FROM {table})
SELECT s.{t}.{secret} FROM (SELECT struct({t}) AS s FROM {table})
SELECT {t} FROM {table}
SELECT {t}.* FROM {table} {t}, {open}
SELECT to_json(struct({t}.*)) FROM {table}
SELECT struct({t}.*).{secret} FROM {table}
SELECT named_struct('a', {t}.{secret}).a FROM {table}
SELECT {table}.home.street FROM {table}
SELECT {db}.{t}.tags[1] FROM {table}
== shadows of a table
CREATE TEMP VIEW {t} AS SELECT * FROM {table} ;; SELECT {secret}, region FROM {t}
CREATE TEMP VIEW {t} AS SELECT 1 AS id ;; SELECT * FROM {t}
CREATE TEMP VIEW {t} AS SELECT 1 AS id ;; SELECT * FROM {table}
CREATE TEMP VIEW {t} AS SELECT 1 AS id ;; DROP VIEW {t} ;; SELECT id, {secret} FROM {t}
CREATE TEMP VIEW open AS SELECT * FROM {table} ;; SELECT count(*) FROM open
CREATE TEMP VIEW open AS SELECT * FROM {table} ;; SELECT count(*) FROM {open}
CREATE TEMP VIEW v AS SELECT * FROM {table} ;; CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM v WHERE id > 0 ;; SELECT * FROM v
CREATE TEMP VIEW a AS SELECT * FROM {table} ;; CREATE TEMP VIEW b AS SELECT * FROM a ;; CREATE OR REPLACE TEMP VIEW a AS SELECT 1 AS id ;; SELECT * FROM b
CREATE TEMP VIEW v (a, b) AS SELECT id, {secret} FROM {table} ;; SELECT b FROM v
CREATE TEMP VIEW v AS SELECT * FROM {table} ;; ALTER VIEW v AS SELECT id, {secret} FROM {table} ;; SELECT * FROM v
CREATE TEMP VIEW v AS SELECT * FROM {table} ;; ALTER VIEW v RENAME TO w ;; SELECT * FROM w
CREATE TEMP VIEW `{db}.{t}` AS SELECT 1 AS id ;; SELECT * FROM {table}
CREATE GLOBAL TEMP VIEW g AS SELECT * FROM {table} ;; SELECT * FROM global_temp.g
SELECT * FROM global_temp.{t}
SELECT * FROM global_temp.open
WITH {t} AS (SELECT 1 AS id) SELECT * FROM {t}, {table}
WITH {t} AS (SELECT * FROM {table}) SELECT {secret} FROM {t}
WITH open AS (SELECT * FROM {table}) SELECT count(*) FROM open
WITH x AS (SELECT * FROM {table}), {t} AS (SELECT * FROM x) SELECT * FROM {t}
SELECT * FROM (WITH {t} AS (SELECT 1 AS id) SELECT * FROM {t}) q, {t}
USE {db} ;; WITH `{db}.{t}` AS (SELECT 1) SELECT count(*) FROM {table}
USE atk_mine ;; SELECT * FROM {t}
USE atk_mine ;; CREATE TABLE {own} AS SELECT id FROM {table} ;; SELECT * FROM {own}
USE default ;; SELECT {secret} FROM {table}
== columns of the relation around
SELECT (SELECT max(o.id) FROM {open} o WHERE o.id = {t}.id AND {t}.{secret} IS NOT NULL) FROM {table}
SELECT o.id FROM {open} o WHERE EXISTS (SELECT 1 FROM {table} x WHERE x.id = o.id AND {secret} = '{guess}')
SELECT id FROM {open} WHERE id IN (SELECT id FROM {table} WHERE open.name = name)
SELECT (SELECT {secret}) FROM {table}
SELECT (SELECT struct(*) FROM (SELECT {t}.{secret})) FROM {table}
SELECT transform(array(1, 2), id -> id + 1), filter(tags, t -> t LIKE 'Q%') FROM {table}
SELECT aggregate(tags, '', (a, t) -> a || t || coalesce({secret}, '')) FROM {table}
SELECT transform(tags, {secret} -> {secret}) FROM {table}
SELECT transform_keys(props, (k, v) -> k || v), map_filter(props, (k, v) -> v > 1000) FROM {table}
SELECT exists(tags, x -> x = 'QZXJWKVBM-t1'), forall(tags, x -> x LIKE 't%') FROM {table}
SELECT zip_with(tags, tags, (x, y) -> x || y), array_sort(tags, (x, y) -> CASE WHEN x < y THEN 1 ELSE -1 END) FROM {table}
SELECT region FROM {table} WHERE region <> 'EMEA' OR {t}.region = '{region}'
SELECT 1 AS region, * FROM {table} WHERE region = 1
SELECT * FROM (SELECT 'EMEA' AS region, id, {secret} FROM {table}) WHERE region = 'EMEA'
