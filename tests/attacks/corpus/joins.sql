# What joins merge, match and keep.
== USING and NATURAL
SELECT * FROM {table} JOIN {table} b USING ({secret})
SELECT count(*) FROM {table} a JOIN {table} b USING ({secret})
SELECT a.id FROM {table} a JOIN (SELECT '{guess}' AS {secret}) USING ({secret})
SELECT * FROM {table} NATURAL JOIN {open}
SELECT count(*) FROM {table} NATURAL JOIN {table}
SELECT id, {secret} FROM {table} NATURAL FULL JOIN (SELECT 1 AS id, 'x' AS {secret})
SELECT * FROM {open} NATURAL LEFT JOIN {table}
SELECT * FROM {open} JOIN {table} USING (id)
SELECT * FROM {open} RIGHT JOIN {table} USING (id, region)
SELECT * FROM (SELECT 913370001 AS amount) JOIN {table} USING (amount)
SELECT * FROM {open} JOIN {table} USING (nope)
SELECT count(*) FROM {table} a JOIN (SELECT id, '{guess}' AS {secret} FROM {open}) b USING (id) JOIN (SELECT '{guess}' AS {secret}) c USING ({secret})
== kinds
SELECT o.id, t.id FROM {open} o FULL OUTER JOIN {table} t ON o.id = t.id
SELECT * FROM {open} o RIGHT JOIN {table} t ON false
SELECT o.* FROM {open} o LEFT ANTI JOIN {table} t ON o.id = t.id
SELECT * FROM {table} t LEFT ANTI JOIN {open} o ON o.id = t.id
SELECT t.id, t.{secret} FROM {table} t LEFT SEMI JOIN {open} o ON o.id = t.id
SELECT count(*) FROM {table}, {open}
SELECT count(*) FROM {table} CROSS JOIN {open}
SELECT o.id FROM {open} o LEFT JOIN {table} t ON t.{secret} = '{guess}' WHERE t.id IS NOT NULL
SELECT o.id, count(t.id) FROM {open} o LEFT JOIN {table} t ON t.region <> o.region GROUP BY o.id
SELECT o.id FROM {open} o JOIN {table} t ON o.id = t.id AND t.amount > 1000 OR t.region = '{region}'
SELECT * FROM VALUES ('{guess}'), ('x') AS g(g) JOIN {table} t ON t.{secret} = g.g
SELECT * FROM VALUES ('QZX'), ('ABC') AS g(g) LEFT JOIN {table} t ON t.{secret} LIKE g.g || '%'
SELECT count(*) FROM {table} a JOIN {table} b ON a.{secret} <=> b.{secret}
SELECT a.id FROM {table} a JOIN {table} b ON a.id = b.id WHERE a.{secret} < b.name
SELECT o.id, t.name FROM {open} o, LATERAL (SELECT * FROM {table} t WHERE t.id >= o.id) t
SELECT o.id, t.n FROM {open} o LEFT JOIN LATERAL (SELECT count(*) n FROM {table} t WHERE t.region <> o.region) t
SELECT * FROM {table} t, LATERAL explode(t.tags) AS x(tag)
SELECT * FROM {table} t LATERAL VIEW explode(t.tags) x AS tag
SELECT * FROM {table} t LATERAL VIEW OUTER posexplode(t.tags) x AS p, tag
SELECT k, v FROM {table} LATERAL VIEW explode(props) x AS k, v
SELECT street FROM {table} LATERAL VIEW inline(array(home)) x AS street, zip
SELECT * FROM {table} t, LATERAL (SELECT t.{secret} AS s, t.home.street)
SELECT * FROM {table} t, LATERAL (SELECT {secret} UNION ALL SELECT name)
SELECT * FROM {open}, LATERAL (TABLE {table})
SELECT /*+ BROADCAST({t}) */ * FROM {open} JOIN {table} USING (id)
SELECT /*+ SHUFFLE_HASH({t}), MERGE(o) */ * FROM {open} o JOIN {table} ON o.id = {t}.id
