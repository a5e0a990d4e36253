# Statements whose lineage Spark's analysed plan is asked about (tests/e2e/test_lineage_spark.py), one a line.
# Tables are those of tests/lineage_world.py; v1, v2 and v3 are views of tests/e2e/test_lineage_spark.py.
# names, stars, structs
SELECT x FROM a
SELECT X, a.Y, ln.a.z, spark_catalog.ln.a.i FROM a
SELECT * FROM a
SELECT a.* FROM a
SELECT * EXCEPT (ssn, arr) FROM a
SELECT a.* EXCEPT (x), b.* EXCEPT (i) FROM a JOIN b ON a.i = b.i
SELECT q.x, p.x FROM a AS p, b AS q
SELECT s.f, a.s.g.h, s.g FROM a
SELECT s.* FROM a
SELECT s.*, a.s.g.* FROM a
SELECT arr[0], m['k'], ss[1].u, ss.v FROM a
SELECT struct(*) FROM c
SELECT named_struct('p', x, 'q', y).p FROM a
SELECT to_json(struct(a.*)) FROM a
SELECT n FROM (SELECT x AS n, y AS o FROM a)
SELECT t.n FROM (SELECT x, y FROM a) AS t(n, o)
SELECT n, o FROM a AS t(n, o, c, d, e, f, g, h, j)
SELECT x AS p, p + 1 AS q, q * y AS r FROM a
SELECT x AS y, y AS z FROM a
SELECT `x`, `a`.`y` FROM `ln`.`a`
SELECT (x), ((y)) FROM a
SELECT 1, 'k', current_date(), x FROM a
SELECT user, x FROM a
TABLE a
TABLE a ORDER BY x LIMIT 3
SELECT * FROM (TABLE a)
SELECT * FROM (SELECT * FROM (SELECT x, y FROM a))
FROM a SELECT x, y
FROM a SELECT x WHERE y > 1
SELECT a.x FROM a AS a WHERE a.y = 1 ORDER BY a.z
SELECT count(*), count(1), count(x), count(DISTINCT x, y) FROM a
SELECT x + y * z - i FROM a
SELECT cast(x AS string), x::bigint, try_cast(ssn AS int) FROM a
SELECT CASE WHEN x > 1 THEN y WHEN z > 2 THEN i END FROM a
SELECT CASE x WHEN 1 THEN y ELSE z END FROM a
SELECT if(x > 1, y, z), nvl(x, y), nvl2(x, y, z), coalesce(x, y, z), nullif(x, y), decode(x, 1, y, 2, z, i) FROM a
SELECT x BETWEEN y AND z, x IN (y, z), x IS NULL, NOT (x > 1), ssn LIKE 'a%', ssn RLIKE 'b' FROM a
SELECT concat(ssn, '-', x), substring(ssn, 1, y), upper(trim(ssn)), ssn || x FROM a
SELECT date_add(current_date(), x), INTERVAL '1' DAY * y FROM a
SELECT greatest(x, y), least(z, i), abs(x), round(x / y, 2) FROM a
SELECT array(x, y), map(x, y), array(x, y)[0], map('p', z)['p'] FROM a
# higher-order functions
SELECT transform(arr, e -> e + x) FROM a
SELECT transform(arr, (e, n) -> e + n + y) FROM a
SELECT filter(arr, e -> e > x), exists(arr, e -> e = y), forall(arr, e -> e < z) FROM a
SELECT aggregate(arr, 0, (acc, e) -> acc + e + x, acc -> acc * y) FROM a
SELECT zip_with(arr, array(x), (p, q) -> p + q + z) FROM a
SELECT transform(arr, x -> x + 1) FROM a
SELECT transform(arr, x -> transform(array(y), z -> z + x)) FROM a
SELECT map_filter(m, (k, v) -> v > x), transform_values(m, (k, v) -> v + y) FROM a
SELECT array_sort(arr, (p, q) -> p - q + x) FROM a
SELECT transform(ss, e -> e.u + x) FROM a
# joins
SELECT a.x, b.k FROM a JOIN b ON a.i = b.i
SELECT a.x, b.k FROM a LEFT JOIN b ON a.i = b.i AND b.p > 3
SELECT a.x, b.k FROM a RIGHT OUTER JOIN b ON a.i = b.i
SELECT a.x, b.k FROM a FULL JOIN b ON a.i = b.i
SELECT * FROM a LEFT SEMI JOIN b ON a.i = b.i
SELECT * FROM a LEFT ANTI JOIN b ON a.i = b.i AND a.x > b.x
SELECT * FROM a CROSS JOIN c
SELECT * FROM b, c WHERE b.i = c.i
SELECT * FROM b JOIN c USING (i)
SELECT i, b.i, c.i FROM b JOIN c USING (i)
SELECT b.*, c.* FROM b JOIN c USING (i)
SELECT * FROM b LEFT JOIN c USING (i)
SELECT * FROM b RIGHT JOIN c USING (i)
SELECT i, b.i, c.i FROM b FULL JOIN c USING (i)
SELECT * FROM b FULL JOIN c USING (i)
SELECT * FROM b LEFT SEMI JOIN c USING (i)
SELECT * FROM b LEFT ANTI JOIN c USING (i)
SELECT * FROM b NATURAL JOIN c
SELECT * FROM b NATURAL LEFT JOIN d
SELECT * FROM b NATURAL FULL JOIN d
SELECT i, w, k FROM b JOIN c USING (i) JOIN d USING (i, k)
SELECT * FROM (b JOIN c USING (i))
SELECT * FROM (b JOIN c ON b.i = c.i) JOIN d ON d.i = b.i
SELECT t.k FROM (b CROSS JOIN c) t
SELECT p.x, q.x FROM a p JOIN a q ON p.i = q.y
SELECT * FROM b JOIN LATERAL (SELECT c.w + b.k AS n FROM c WHERE c.i = b.i) l
SELECT b.k, l.n FROM b, LATERAL (SELECT b.x AS n) l
SELECT * FROM b LEFT JOIN LATERAL (SELECT max(w) AS n FROM c WHERE c.i > b.i) l ON l.n > b.k
SELECT a.x FROM a JOIN b ON a.i = b.i JOIN c ON b.i = c.i JOIN d ON d.i = c.w
SELECT x FROM a TABLESAMPLE (10 PERCENT)
SELECT t.x FROM a TABLESAMPLE (5 ROWS) AS t WHERE t.y > 1
SELECT /*+ BROADCAST(b) */ a.x, b.k FROM a JOIN b ON a.i = b.i
# grouping
SELECT x, sum(y) FROM a GROUP BY x
SELECT x + 1 AS n, sum(y) AS s FROM a GROUP BY x + 1 HAVING sum(z) > 3
SELECT x AS n, sum(y) FROM a GROUP BY n
SELECT x, sum(y) FROM a GROUP BY 1
SELECT x, y, sum(z) FROM a GROUP BY ALL
SELECT x, y, sum(z) FROM a GROUP BY ROLLUP (x, y)
SELECT x, y, sum(z) FROM a GROUP BY x, y WITH CUBE
SELECT x, y, sum(z), grouping(x), grouping_id() FROM a GROUP BY GROUPING SETS ((x), (x, y), ())
SELECT x, count(*) AS n FROM a GROUP BY x HAVING n > 1 ORDER BY n DESC
SELECT x AS y, max(y) AS x FROM a GROUP BY x HAVING x > 1
SELECT sum(x) FILTER (WHERE y > 1) FROM a
SELECT sum(DISTINCT x), avg(y), stddev(z), max_by(x, y), any_value(z), first(i), collect_list(struct(x, y)) FROM a
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), mode() WITHIN GROUP (ORDER BY y) FROM a
SELECT listagg(ssn, ',') WITHIN GROUP (ORDER BY x DESC) FROM a
SELECT max(x) + min(y) * count(z) FROM a
SELECT DISTINCT x, y FROM a
SELECT count(DISTINCT *) FROM c
SELECT max(struct(x, y)).x FROM a
SELECT dept, sum(n) FROM (SELECT dept, count(*) AS n FROM e1 GROUP BY dept, age) GROUP BY dept
SELECT x FROM a GROUP BY x, y
SELECT sum(sum(x)) OVER () FROM a GROUP BY y
# windows
SELECT row_number() OVER (PARTITION BY x ORDER BY y) FROM a
SELECT sum(x) OVER (PARTITION BY y ORDER BY z ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM a
SELECT lag(x, 1, y) OVER (ORDER BY z), lead(x) IGNORE NULLS OVER (ORDER BY z) FROM a
SELECT x, rank() OVER w AS r, sum(y) OVER w FROM a WINDOW w AS (PARTITION BY z ORDER BY i)
SELECT x FROM a QUALIFY row_number() OVER (PARTITION BY y ORDER BY z) = 1
SELECT x, row_number() OVER (ORDER BY y) AS rn FROM a QUALIFY rn = 1
SELECT * FROM (SELECT x, row_number() OVER (PARTITION BY y ORDER BY z) AS rn FROM a) WHERE rn = 1
SELECT x, sum(y) OVER (PARTITION BY x) + max(z) OVER (ORDER BY i) FROM a
SELECT x, sum(sum(y)) OVER (PARTITION BY x) FROM a GROUP BY x
SELECT ntile(4) OVER (ORDER BY x), percent_rank() OVER (ORDER BY y), first_value(z) OVER (ORDER BY i) FROM a
SELECT avg(x) OVER (ORDER BY y RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM a
SELECT count(*) OVER (PARTITION BY x, y) FROM a
# subqueries
SELECT x, (SELECT max(k) FROM b) FROM a
SELECT x, (SELECT max(k) FROM b WHERE b.i = a.i) AS n FROM a
SELECT x FROM a WHERE i IN (SELECT i FROM b)
SELECT x FROM a WHERE i NOT IN (SELECT i FROM b WHERE k > 2)
SELECT x FROM a WHERE (i, x) IN (SELECT i, x FROM b)
SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.i = a.i)
SELECT x FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE b.i = a.i AND b.k > a.y)
SELECT x FROM a WHERE y > (SELECT avg(k) FROM b WHERE b.i = a.i)
SELECT x + (SELECT max(w) FROM c) FROM a
SELECT x FROM a WHERE y > (SELECT max(k) FROM b WHERE p > (SELECT min(w) FROM c))
SELECT CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.i = a.i) THEN x ELSE y END FROM a
SELECT x IN (SELECT k FROM b) FROM a
SELECT sum(x) FROM a HAVING sum(y) > (SELECT max(k) FROM b)
SELECT (SELECT max(x) FROM (SELECT b.x FROM b WHERE b.i = a.i)) FROM a
SELECT x FROM a ORDER BY (SELECT max(w) FROM c), y
SELECT a.x FROM a JOIN b ON a.i = b.i AND b.k IN (SELECT w FROM c)
# set operations
SELECT x FROM a UNION ALL SELECT k FROM b
SELECT x, y FROM a UNION SELECT i, k FROM b
SELECT x FROM a INTERSECT SELECT k FROM b
SELECT x FROM a EXCEPT SELECT k FROM b
SELECT x FROM a MINUS SELECT k FROM b
SELECT x FROM a EXCEPT ALL SELECT k FROM b
SELECT x FROM a UNION ALL SELECT k FROM b UNION ALL SELECT w FROM c
SELECT x FROM a UNION SELECT k FROM b EXCEPT SELECT w FROM c
SELECT x FROM a UNION ALL (SELECT k FROM b INTERSECT SELECT w FROM c)
(SELECT x FROM a ORDER BY y LIMIT 1) UNION ALL (SELECT k FROM b)
SELECT n FROM (SELECT x AS n FROM a UNION ALL SELECT k FROM b) WHERE n > 1
SELECT i, w FROM c UNION ALL TABLE c
SELECT x FROM a UNION ALL SELECT k FROM b ORDER BY x
# common table expressions
WITH q AS (SELECT x, y FROM a) SELECT x FROM q
WITH q(n, o) AS (SELECT x, y FROM a) SELECT o, n FROM q
WITH q AS (SELECT x FROM a), r AS (SELECT x + 1 AS n FROM q) SELECT n FROM r JOIN q ON q.x = r.n
WITH q AS (SELECT i, k FROM b) SELECT q1.k, q2.k FROM q q1 JOIN q q2 ON q1.i = q2.k
WITH a AS (SELECT k AS x FROM b) SELECT x FROM a
WITH q AS (WITH r AS (SELECT x FROM a) SELECT x FROM r) SELECT x FROM q
SELECT * FROM (WITH q AS (SELECT x FROM a) SELECT * FROM q)
WITH q AS (SELECT max(x) AS n FROM a) SELECT y FROM a WHERE x = (SELECT n FROM q)
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r
WITH RECURSIVE r(n, o) AS (SELECT x, y FROM a UNION ALL SELECT o, n + 1 FROM r WHERE n < 5) SELECT n, o FROM r
WITH RECURSIVE up(id, boss, d) AS (SELECT id, boss, 0 FROM e1 UNION ALL SELECT e1.id, up.boss, d + 1 FROM e1 JOIN up ON e1.boss = up.id) SELECT * FROM up
WITH RECURSIVE r AS (SELECT x AS n FROM a UNION ALL SELECT r.n + b.k FROM r JOIN b ON r.n = b.i WHERE b.p < 3) SELECT max(n) FROM r
WITH RECURSIVE r(n) MAX RECURSION LEVEL 5 AS (SELECT x FROM a UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT n FROM r
# generators
SELECT explode(arr) FROM a
SELECT x, explode(arr) AS e FROM a
SELECT explode(m) FROM a
SELECT explode(m) AS (k, v), x FROM a
SELECT posexplode(arr) FROM a
SELECT posexplode_outer(arr) AS (p, e), x FROM a
SELECT inline(ss) FROM a
SELECT x, inline(ss) AS (n, o) FROM a
SELECT stack(2, x, y, z, i) FROM a
SELECT stack(2, x, y, z, i) AS (n, o) FROM a
SELECT json_tuple(ssn, 'p', 'q') FROM a
SELECT x, e FROM a LATERAL VIEW explode(arr) l AS e
SELECT x, e FROM a LATERAL VIEW OUTER explode(arr) l AS e WHERE e > 1
SELECT key, value FROM a LATERAL VIEW explode(m) l
SELECT x, k, v FROM a LATERAL VIEW explode(m) l AS k, v
SELECT p, e, n FROM a LATERAL VIEW posexplode(arr) l1 AS p, e LATERAL VIEW explode(array(e, x)) l2 AS n
SELECT u, v FROM a LATERAL VIEW inline(ss) l
SELECT l.* FROM a LATERAL VIEW inline(ss) l AS n, o
SELECT x, col FROM a, LATERAL explode(arr)
SELECT x, e FROM a, LATERAL explode(arr) AS l(e)
SELECT x, e FROM a LEFT JOIN LATERAL explode(arr) AS l(e) ON e > y
SELECT * FROM explode(array(1, 2))
SELECT * FROM range(3)
SELECT id + x FROM a, range(3)
SELECT r.id FROM range(1, 5) AS r
SELECT e.u, e.v FROM a LATERAL VIEW explode(ss) l AS e
SELECT x FROM a LATERAL VIEW explode(split(ssn, ',')) l AS w GROUP BY x, w
# pivots
SELECT * FROM t PIVOT (sum(d) FOR e IN ('p', 'q'))
SELECT * FROM t PIVOT (sum(d) AS s, max(c) AS m FOR e IN ('p' AS pp, 'q' AS qq))
SELECT * FROM (SELECT a, d, e FROM t) PIVOT (sum(d) FOR e IN ('p', 'q')) AS v
SELECT v.a, p FROM (SELECT a, d, e FROM t) PIVOT (sum(d) FOR e IN ('p', 'q')) AS v WHERE q > 1
SELECT * FROM t PIVOT (sum(d) FOR (b, e) IN ((1, 'p') AS n, (2, 'q') AS o))
SELECT * FROM t UNPIVOT (v FOR n IN (a, b, c))
SELECT * FROM t UNPIVOT INCLUDE NULLS (v FOR n IN (a AS aa, b))
SELECT u.v, u.e FROM t UNPIVOT (v FOR n IN (c, d)) u
SELECT * FROM t UNPIVOT ((v, w) FOR n IN ((a, b), (c, d)))
# values
SELECT * FROM VALUES (1, 2), (3, 4) AS v(n, o)
VALUES (1, 'x'), (2, 'y')
SELECT v.n, a.x FROM a JOIN (VALUES (1), (2)) AS v(n) ON a.i = v.n
SELECT x, col1 FROM a, (VALUES (1))
# orders and limits
SELECT x FROM a ORDER BY y, z DESC NULLS LAST LIMIT 5 OFFSET 2
SELECT x AS n FROM a ORDER BY n
SELECT x, y FROM a ORDER BY ALL
SELECT x, y FROM a ORDER BY 2, 1
SELECT x FROM a SORT BY y
SELECT x FROM a DISTRIBUTE BY y SORT BY z
SELECT x FROM a CLUSTER BY y
SELECT sum(x) AS n FROM a GROUP BY y ORDER BY sum(z), y
SELECT DISTINCT x FROM a ORDER BY x
# views
SELECT * FROM v1
SELECT n FROM v1 WHERE o > 1
SELECT v1.n, b.k FROM v1 JOIN b ON v1.o = b.i
SELECT * FROM v2
SELECT total FROM v3 WHERE dept > 1
SELECT v.n FROM v1 AS v, v2 AS u WHERE v.n = u.n
# pipes
FROM a |> SELECT x, y
FROM a |> WHERE x > 1 |> SELECT y
TABLE a |> WHERE x > 1
FROM a |> EXTEND x + y AS n |> SELECT n, z
FROM a |> SET x = y + 1, z = x |> SELECT x, z
FROM b |> DROP k, p
FROM a |> AGGREGATE sum(x) AS s, count(*) AS n GROUP BY y
FROM a |> AGGREGATE sum(x) AS s GROUP BY y + 1 AS g, z |> WHERE s > 1
FROM a |> AGGREGATE max(x)
FROM a |> AS q |> SELECT q.x, q.y
FROM a |> JOIN b ON a.i = b.i |> SELECT a.x, b.k
FROM b |> JOIN c USING (i)
FROM a |> LEFT JOIN b ON a.i = b.i |> WHERE b.k > 1 |> SELECT a.x
FROM c |> UNION ALL TABLE c
FROM a |> SELECT x |> UNION ALL (SELECT k FROM b) |> WHERE x > 1
FROM a |> SELECT x |> EXCEPT SELECT k FROM b
FROM a |> ORDER BY x |> LIMIT 3 |> SELECT y
FROM t |> PIVOT (sum(d) FOR e IN ('p', 'q'))
FROM t |> UNPIVOT (v FOR n IN (a, b, c))
FROM a |> SELECT x, row_number() OVER (PARTITION BY y ORDER BY z) AS rn |> WHERE rn = 1
FROM a |> EXTEND x AS n, n + y AS o |> SELECT o
FROM a |> EXTEND s.f
FROM a |> EXTEND a.x + 1 AS n |> SELECT a.x, n
FROM a |> EXTEND sum(x) OVER w AS n WINDOW w AS (PARTITION BY y ORDER BY z)
FROM a |> SELECT sum(x) OVER w AS n WINDOW w AS (PARTITION BY y)
FROM a |> AGGREGATE max(x) + g AS h GROUP BY y + 1 AS g, g + 1 AS k
FROM a |> AGGREGATE count(*) AS n GROUP BY 2 |> SELECT n
FROM a |> AGGREGATE count(*) AS n GROUP BY s.f
FROM a |> AGGREGATE sum(x) AS s GROUP BY y |> SELECT a.y, s
FROM b |> WHERE x > 1 UNION ALL TABLE b |> SELECT i
FROM a |> SELECT x |> WHERE x > 1 UNION ALL SELECT k FROM b |> WHERE x = 2
FROM a |> WHERE x > 1 ORDER BY y LIMIT 2
FROM a |> SELECT x ORDER BY y
FROM a |> SELECT x |> UNION ALL SELECT k FROM b |> ORDER BY x
FROM a |> SELECT x, y, i |> SET x = y, y = x |> SELECT a.i, x
FROM b |> JOIN c USING (i) |> SELECT b.i, c.i, w
FROM b |> FULL JOIN c USING (i) |> AS j |> SELECT j.i, j.w
FROM b |> NATURAL JOIN c |> SELECT c.i, k
FROM a |> LEFT SEMI JOIN b ON a.i = b.i |> SELECT x
FROM a |> JOIN LATERAL (SELECT x + 1 AS n) l |> SELECT n, l.n
FROM a |> WHERE EXISTS (FROM b |> WHERE b.i = a.x) |> SELECT y
FROM a |> SELECT (FROM b |> WHERE b.i = a.x |> AGGREGATE max(k)) AS m
FROM a |> TABLESAMPLE (100 PERCENT) |> SELECT x
FROM a |> SELECT transform(arr, e -> e + x) AS f
FROM a |> SELECT DISTINCT x |> SELECT x + 1 AS n
FROM a |> SELECT s.f |> SELECT f
FROM a |> SELECT * EXCEPT (ssn, arr, s) |> SELECT a.x
WITH w AS (FROM a |> SELECT x) FROM w |> EXTEND x + 1 AS n |> SELECT w.x, n
(SELECT x FROM a) |> WHERE a.x > 1
SELECT x, y FROM a WHERE z = 1 |> SELECT a.y
VALUES (1) t(n) |> JOIN a ON a.x = n |> SELECT n, y
FROM a |> SELECT x, y |> INTERSECT SELECT k, i FROM b
SELECT n FROM (FROM a |> SELECT x AS n) WHERE n > 1
WITH q AS (FROM a |> WHERE x > 1) FROM q |> SELECT y
SELECT x FROM a WHERE i IN (FROM b |> WHERE k > 1 |> SELECT i)
FROM a |> SELECT x AS n, y |> AS q |> JOIN b ON b.i = q.n |> AGGREGATE sum(b.k) AS s GROUP BY q.y
SELECT x FROM a |> SELECT x + 1 AS n |> EXTEND n * 2 AS o
# writes
INSERT INTO d SELECT i, x, y, z, 1 FROM a
INSERT INTO d (k, i) SELECT x, y FROM a WHERE z > 1
INSERT INTO d BY NAME SELECT x AS k, y AS i, z AS x, i AS y, 1 AS z FROM a
INSERT INTO d SELECT * FROM d
INSERT INTO c VALUES (1, 2)
INSERT INTO c TABLE c
WITH q AS (SELECT i, x FROM a) INSERT INTO c SELECT * FROM q
INSERT INTO c FROM a SELECT x, y
INSERT INTO c FROM a |> SELECT x, y
# brackets around relations
SELECT t2.ssn, t1.p FROM ((a t2 JOIN b t1 ON t2.i = t1.i))
SELECT t2.ssn, t1.p, c.w FROM (((a t2 JOIN b t1 ON t2.i = t1.i)) JOIN c ON c.i = t2.i)
SELECT t.ssn, c.w FROM ((a t LEFT JOIN b u USING (i)) INNER JOIN (c) ON c.i = t.i)
SELECT q.ssn FROM ((SELECT * FROM a) q)
SELECT q.x FROM (((SELECT * FROM a) q))
SELECT q.x FROM ((SELECT * FROM a)) q
SELECT w.p, c.w FROM (((SELECT ssn AS p, i FROM a) w JOIN c ON w.i = c.i))
SELECT j.q, j.w FROM ((b JOIN (c) ON b.k = c.w)) j(a1, a2, a3, a4, q, a6, w)
SELECT z.ssn FROM ((SELECT ssn FROM a ORDER BY x LIMIT 1)) z
# aliases that are keywords elsewhere
SELECT final.ssn, window.p FROM a final JOIN b window ON final.i = window.i
SELECT set.x, cast(set.y AS string) FROM a AS set
# stars of structs that the query builds
SELECT st.* FROM (SELECT named_struct('p', ssn, 'q', x) AS st FROM a)
SELECT st.p.q, st.r FROM (SELECT struct(struct(ssn AS q, x) AS p, y AS r) AS st FROM a WHERE x > 1)
SELECT st.*, i FROM (SELECT i, struct(ssn, x AS z, y + 1) AS st FROM a)
SELECT z FROM (SELECT st.* FROM (SELECT max(struct(ssn, x AS z)) AS st FROM a))
SELECT st.* FROM (SELECT struct(*) AS st FROM c)
SELECT st.* FROM (SELECT from_json(ssn, 'p int, q struct<r:string>') AS st FROM a)
SELECT q.* FROM (SELECT st.* FROM (SELECT from_json(ssn, 'p int, q struct<r:string>') AS st FROM a))
SELECT st.* FROM (SELECT collect_list(struct(ssn, x))[0] AS st FROM a)
SELECT e.* FROM (SELECT explode(ss) AS e FROM a)
SELECT f.u, f.* FROM a LATERAL VIEW explode(ss) e AS f
# columns without an alias, by Spark's names
SELECT `max(ssn)`, `(x + 1)` FROM (SELECT max(p.ssn), p.x + 1 FROM a p GROUP BY p.x)
WITH c AS (SELECT upper(ssn), i FROM a) SELECT `upper(ssn)` || 'x' FROM c WHERE i > 1
SELECT `concat(ssn, -, x)` FROM (SELECT concat(p.ssn, '-', p.x) FROM a p UNION ALL SELECT 'k')
SELECT `max(s.g.h)`, `sum(x)` FROM (SELECT max(p.s.g.h), sum(x) FILTER (WHERE y > 1), sum(x) FROM a p)
SELECT v.`count(1)`, v.`max(x)` FROM (SELECT count(*), max(x) FROM a) v
SELECT `1_max(x)`, `two_sum(x)` FROM (SELECT x, y, z FROM a) u PIVOT (sum(u.x), max(u.x) FOR y IN (1, 2 AS two))
SELECT * EXCEPT (d) FROM (SELECT max(p.d) AS d, concat(p.ssn, '-', p.name) AS e FROM named p GROUP BY p.ssn, p.name)
