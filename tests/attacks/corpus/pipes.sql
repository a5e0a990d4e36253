# Queries in the order of their steps.
== steps
FROM {table} |> SELECT {secret}
TABLE {table} |> WHERE region <> 'EMEA' |> AGGREGATE count(*)
FROM {table} |> WHERE {secret} LIKE 'Q%' |> SELECT id
FROM {table} |> EXTEND upper({secret}) AS u |> SELECT u
FROM {table} |> SET region = 'EMEA' |> AGGREGATE count(*) GROUP BY region
FROM {table} |> SET {secret} = concat({secret}, '') |> SELECT {secret}
FROM {table} |> DROP id |> SELECT *
FROM {table} |> AS x |> SELECT x.{secret}
FROM {table} |> AGGREGATE max({secret}), count(*) AS n GROUP BY region
FROM {table} |> AGGREGATE GROUP BY {secret}
FROM {table} |> ORDER BY {secret}, id |> LIMIT 1 |> SELECT id
FROM {open} |> JOIN {table} USING (id) |> SELECT {secret}
FROM {open} |> LEFT JOIN {table} t ON t.id = open.id AND t.amount > 1000 |> SELECT open.id, t.{secret}
FROM {open} |> SELECT id |> EXCEPT SELECT id FROM {table}
FROM {open} |> SELECT name |> UNION ALL SELECT {secret} FROM {table}
FROM {table} |> SELECT region, amount |> PIVOT (sum(amount) FOR region IN ('EMEA', '{region}'))
FROM {table} |> SELECT id, {secret} |> UNPIVOT (v FOR n IN ({secret}))
FROM {table} |> TABLESAMPLE (100 PERCENT) |> SELECT id, {secret}
FROM {table} |> CROSS JOIN {open} |> AGGREGATE count(*)
FROM {open} |> WHERE EXISTS (FROM {table} |> WHERE region = '{region}')
FROM {open} |> EXTEND (SELECT max({secret}) FROM {table}) AS s
FROM {table} |> EXTEND row_number() OVER (ORDER BY {secret}, id) AS r |> WHERE r = 1 |> SELECT id
WITH x AS (FROM {table} |> WHERE id > 1) FROM x |> SELECT {secret}
SELECT * FROM (FROM {table} |> SELECT id, name) |> LIMIT 2 |> AGGREGATE count(*)
FROM {table} |> SELECT * |> SELECT * EXCEPT (id)
VALUES (1) |> EXTEND (TABLE {table} |> AGGREGATE count(*)) AS n
