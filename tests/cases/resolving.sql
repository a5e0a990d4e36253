# Queries over the tables of tests/lineage_world.py that ask what a name means. Spark's analysed plan says it.
# USING and NATURAL, of each kind of join: one column of two.
SELECT * FROM a JOIN b USING (i)
SELECT * FROM a LEFT JOIN b USING (i, x)
SELECT * FROM a RIGHT JOIN b USING (i)
SELECT * FROM a FULL JOIN b USING (x, i)
SELECT i, a.i, b.i, a.*, b.* FROM a FULL JOIN b USING (i)
SELECT i, a.i, b.i FROM a RIGHT JOIN b USING (i)
SELECT I FROM (SELECT * FROM a RIGHT JOIN b USING (i)) q
SELECT * FROM a LEFT SEMI JOIN b USING (i)
SELECT * FROM a LEFT ANTI JOIN b USING (i, x)
SELECT * FROM b NATURAL JOIN d
SELECT * FROM d NATURAL LEFT JOIN b
SELECT * FROM b NATURAL RIGHT JOIN d
SELECT *, d.k, b.* FROM b NATURAL FULL JOIN d
SELECT * FROM c NATURAL JOIN t
SELECT * FROM a JOIN b USING (i) FULL JOIN c USING (i)
SELECT i, c.i FROM a RIGHT JOIN b USING (i) LEFT JOIN c USING (i)
# Lateral names come behind the columns of the row.
SELECT i AS n, n + x AS m, m AS k FROM a
SELECT x AS i, i AS j FROM a
SELECT i AS n, x AS i, i AS j, n AS o FROM a
# What a generator makes.
SELECT * FROM a LATERAL VIEW explode(arr) e AS f
SELECT e.f, a.f0 FROM (SELECT arr, i AS f0 FROM a) a LATERAL VIEW OUTER explode(arr) e AS f
SELECT g, f FROM a LATERAL VIEW explode(m) e AS f, g LATERAL VIEW explode(array(f)) h AS k
# Set operations, by place.
SELECT i, x FROM a UNION ALL SELECT w, i FROM c
SELECT w FROM (SELECT i AS w, x FROM a EXCEPT SELECT w, i FROM c) q
SELECT * FROM c INTERSECT SELECT k, p FROM b UNION SELECT 1, q FROM b
# Names for relations and columns.
SELECT q.n, m FROM (SELECT x, y FROM a) AS q (n, m)
WITH q (n, m) AS (SELECT * FROM c), r AS (SELECT m AS n, n AS m FROM q) SELECT r.n, q.n FROM r JOIN q ON r.m = q.m
WITH a AS (SELECT k AS i, i AS x FROM b) SELECT * FROM a
WITH q AS (SELECT i AS n FROM a) SELECT * FROM (WITH q AS (SELECT w AS n FROM c) SELECT n FROM q)
WITH q AS (SELECT i AS n FROM a) SELECT * FROM (WITH q AS (SELECT n AS m FROM q) SELECT m FROM q) JOIN q
SELECT ln.a.x, a.y FROM ln.a
SELECT b.x, a.* FROM a, b
SELECT q.*, r.x FROM a q JOIN a r ON q.i = r.y
SELECT * FROM (SELECT x AS i, i AS x FROM a) q WHERE i = 5
# Groups, windows and orders.
SELECT y, max(x) AS z FROM a GROUP BY y HAVING z > 1 ORDER BY y
SELECT x + 1 AS n, count(*) FROM a GROUP BY n
SELECT i, sum(x) OVER (PARTITION BY y ORDER BY z ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM a
SELECT first(x), any_value(y) FILTER (WHERE z > 1), CASE WHEN x > 1 THEN y ELSE z END, coalesce(x, y) FROM a GROUP BY x, y, z
SELECT DISTINCT x, CAST(y AS STRING), TRY_CAST(z AS BIGINT), x IN (1, 2), x BETWEEN y AND z FROM a ORDER BY 1 LIMIT 5
FROM a |> SELECT x AS n, y |> EXTEND n + y AS m |> WHERE m > 1 |> AGGREGATE max(m) AS k GROUP BY n
