# Subqueries in every place that takes one.
== scalar
SELECT (SELECT max({secret}) FROM {table})
SELECT (SELECT count(*) FROM {table})
SELECT (SELECT count(*) FROM {table} WHERE region <> 'EMEA') AS n FROM {open}
SELECT id, (SELECT max(t.{secret}) FROM {table} t WHERE t.id = o.id) FROM {open} o
SELECT id, (SELECT count(*) FROM {table} t WHERE t.region <> o.region) FROM {open} o
SELECT id FROM {open} ORDER BY (SELECT max({secret}) FROM {table}), id
SELECT id FROM {open} ORDER BY (SELECT count(*) FROM {table}) % id, id
SELECT id FROM {open} WHERE length(name) < (SELECT count(*) FROM {table})
SELECT max(id) FROM {open} HAVING max(id) < (SELECT count(*) FROM {table})
SELECT CASE WHEN (SELECT count(*) FROM {table}) > 100 THEN 'many' ELSE 'few' END
SELECT 1 / ((SELECT count(*) FROM {table}) - 7925) AS n
SELECT 1 / ((SELECT count(*) FROM {table}) - 6)
SELECT array((SELECT max(name) FROM {table}), 'x')
SELECT struct((SELECT max({secret}) FROM {table}) AS s).s
SELECT coalesce((SELECT {secret} FROM {table} WHERE id = 1), 'nothing')
SELECT (SELECT {secret} FROM {table})
SELECT (SELECT first(t) FROM {table} t WHERE id = 1)
SELECT sum((SELECT count(*) FROM {table})) OVER () FROM {open}
SELECT id FROM {open} GROUP BY id HAVING id <= (SELECT max(amount) FROM {table}) ORDER BY id
SELECT if((SELECT bool_or({secret} LIKE 'Q%') FROM {table}), 'y', 'n')
SELECT id FROM {open} LIMIT (SELECT 2)
SELECT explode(array((SELECT max({secret}) FROM {table})))
SELECT element_at(array(1, 2, 3), (SELECT CAST(count(*) AS INT) FROM {table}))
SELECT repeat('x', (SELECT CAST(count(*) AS INT) FROM {table}))
SELECT * FROM range((SELECT count(*) FROM {table}))
SELECT * FROM VALUES ((SELECT max({secret}) FROM {table})) AS v(x)
SELECT sequence(1, (SELECT CAST(count(*) AS INT) FROM {table}))
SELECT transform(array(1), x -> (SELECT max({secret}) FROM {table}))
SELECT transform(tags, t -> t || (SELECT max({secret}) FROM {table})) FROM {table}
== EXISTS and IN
SELECT id FROM {open} WHERE EXISTS (SELECT * FROM {table} WHERE region = '{region}')
SELECT id FROM {open} WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE amount > 1000000)
SELECT id FROM {open} o WHERE EXISTS (SELECT 1 FROM {table} t WHERE t.id <> o.id AND t.{secret} LIKE 'Q%')
SELECT id FROM {open} WHERE id NOT IN (SELECT id FROM {table})
SELECT id FROM {open} WHERE '{guess}' IN (SELECT {secret} FROM {table})
SELECT id FROM {open} WHERE ('{guess}', 1) IN (SELECT {secret}, id FROM {table})
SELECT id FROM {open} WHERE 'x' NOT IN (SELECT {secret} FROM {table})
SELECT id, id IN (SELECT id FROM {table}) FROM {open}
SELECT EXISTS (SELECT 1 FROM {table} WHERE id = {hidden_id})
SELECT id FROM {table} t WHERE EXISTS (SELECT 1 FROM {table} u WHERE u.id = t.id AND u.amount > 1000)
SELECT id FROM {table} WHERE {secret} IN (SELECT {secret} FROM {table} WHERE region = '{region}')
SELECT id FROM {table} WHERE id IN (SELECT max(id) FROM {table} GROUP BY region)
SELECT id FROM {table} t WHERE amount = (SELECT max(amount) FROM {table} u WHERE u.region = t.region)
SELECT id FROM {table} WHERE (SELECT true)
SELECT EXISTS (SELECT 1 FROM {table} WHERE region LIKE 'Q%'), EXISTS (SELECT 1 FROM {denied})
