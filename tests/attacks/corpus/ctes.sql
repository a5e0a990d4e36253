# Common table expressions, nested, recursive, unused, and of names that are taken.
== ways in
WITH x AS (SELECT {secret} FROM {table}) SELECT * FROM x
WITH x AS (TABLE {table}) TABLE x
WITH x AS (FROM {table}) SELECT id, region FROM x
WITH x(a, b) AS (SELECT id, {secret} FROM {table}) SELECT b FROM x
WITH x AS (WITH y AS (SELECT * FROM {table}) SELECT * FROM y) SELECT * FROM x
WITH x AS (SELECT * FROM {table}), y AS (SELECT * FROM x) SELECT x.id, y.{secret} FROM x JOIN y ON x.id = y.id
WITH x AS (SELECT * FROM {denied}) SELECT 1
WITH x AS (SELECT {secret} FROM {table}) SELECT 1
WITH x AS (SELECT 1 AS id), x AS (SELECT * FROM {table}) SELECT * FROM x
SELECT * FROM (WITH x AS (SELECT * FROM {table}) SELECT * FROM x WHERE id < 3) y
SELECT (WITH x AS (SELECT max(name) m FROM {table}) SELECT m FROM x)
SELECT id FROM {open} WHERE id IN (WITH x AS (SELECT id FROM {table}) SELECT id FROM x)
WITH a AS (SELECT * FROM {table}) (WITH b AS (SELECT * FROM a) SELECT * FROM b) UNION ALL SELECT * FROM a
WITH open AS (SELECT id FROM {table}) SELECT count(*) FROM open JOIN {open} USING (id)
WITH `{t}` AS (SELECT * FROM {table} WHERE id > 2) SELECT * FROM `{t}`
WITH x AS (SELECT * FROM {table}) SELECT * FROM x a, x b WHERE a.id = b.id AND a.amount <= b.amount
WITH x AS (SELECT rand() r, id FROM {table}) SELECT count(*) FROM x a JOIN x b ON a.r = b.r
== recursion
WITH RECURSIVE r(n, s) AS (SELECT 1, {secret} FROM {table} WHERE id = 1 UNION ALL SELECT n + 1, s FROM r WHERE n < 3) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r JOIN {table} t ON t.id = r.n WHERE n < 20) SELECT max(n) FROM r
WITH RECURSIVE r(id) AS (SELECT id FROM {table} WHERE region <> 'EMEA' UNION ALL SELECT id FROM r WHERE false) SELECT count(*) FROM r
WITH RECURSIVE r(n, c) AS (SELECT 1, CAST('' AS STRING) UNION ALL SELECT n + 1, concat(c, CASE WHEN EXISTS (SELECT 1 FROM {table} WHERE {secret} LIKE 'Q%') THEN 'y' ELSE 'n' END) FROM r WHERE n < 3) SELECT * FROM r
WITH RECURSIVE {t}(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM {t} WHERE n < 3) SELECT * FROM {t}
WITH RECURSIVE {t}(n) AS (SELECT id FROM {table} UNION ALL SELECT n + 10 FROM {t} WHERE n < 10) SELECT * FROM {t}
WITH RECURSIVE x MAX RECURSION LEVEL 5 AS (SELECT id FROM {table} UNION ALL SELECT id + 1 FROM x WHERE id < 3) SELECT * FROM x
