# Rows that become columns, and columns that become rows.
== PIVOT
SELECT * FROM (SELECT id, region, amount FROM {table}) PIVOT (sum(amount) FOR region IN ('EMEA', '{region}'))
SELECT * FROM (SELECT region, {secret} FROM {table}) PIVOT (max({secret}) FOR region IN ('EMEA' AS e, 'APAC' AS a))
SELECT * FROM (SELECT id, {secret} FROM {table}) PIVOT (count(id) FOR {secret} IN ('{guess}'))
SELECT * FROM {table} PIVOT (count(*) FOR region IN ('EMEA'))
SELECT * FROM (SELECT region, amount, id FROM {table}) PIVOT (sum(amount) s, count(*) c FOR (region, id) IN (('EMEA', 2), ('APAC', 1)))
SELECT `1` FROM {table} PIVOT (max({secret}) FOR id IN (1, 2))
== UNPIVOT
SELECT * FROM (SELECT id, name, {secret} FROM {table}) UNPIVOT (v FOR n IN (name, {secret}))
SELECT * FROM (SELECT id, name, {secret} FROM {table}) UNPIVOT INCLUDE NULLS (v FOR n IN (name AS a, {secret} AS b))
SELECT id, n, v FROM {table} UNPIVOT (v FOR n IN (name, {secret}, region))
SELECT id, n, a, b FROM {table} UNPIVOT ((a, b) FOR n IN ((name, {secret}), (region, name)))
SELECT v FROM {table} UNPIVOT (v FOR n IN (amount, id))
SELECT * FROM (SELECT {secret} FROM {table}) UNPIVOT (v FOR n IN ({secret}))
SELECT * FROM {table} UNPIVOT (v FOR n IN (nope))
