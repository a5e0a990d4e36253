# Set operations match by position and by name, and compare whole rows.
== of the table
SELECT id, {secret} FROM {table} UNION SELECT 0, 'x'
SELECT * FROM {table} UNION ALL SELECT * FROM {table}
SELECT {secret} FROM {table} INTERSECT SELECT '{guess}'
SELECT '{guess}' EXCEPT SELECT {secret} FROM {table}
SELECT '{guess}' MINUS ALL SELECT {secret} FROM {table}
SELECT id FROM {open} EXCEPT SELECT id FROM {table}
SELECT id FROM {table} EXCEPT SELECT id FROM {open}
SELECT region FROM {table} INTERSECT ALL SELECT region FROM {table}
SELECT region FROM {table} UNION SELECT '{region}'
SELECT id FROM {open} UNION ALL SELECT count(*) FROM {table}
SELECT id, name FROM {open} UNION ALL (SELECT id, {secret} FROM {table} ORDER BY id LIMIT 2)
(SELECT id FROM {table}) UNION (SELECT id FROM {table} WHERE region = '{region}') ORDER BY id
SELECT name, id FROM (SELECT id, {secret} AS name FROM {table} UNION ALL SELECT id, name FROM {open})
SELECT count(*) FROM (SELECT * FROM {table} EXCEPT SELECT * FROM {table})
SELECT count(*) FROM (SELECT * FROM {table} INTERSECT SELECT * FROM {table})
TABLE {open} UNION ALL SELECT id, {secret}, region FROM {table}
FROM {open} SELECT id UNION ALL FROM {table} SELECT id
VALUES ('x') UNION ALL SELECT {secret} FROM {table}
SELECT id FROM {open} UNION SELECT 1 FROM {denied}
SELECT amount FROM {table} INTERSECT SELECT * FROM VALUES (913370001), (913370002), (1), (2)
SELECT born FROM {table} INTERSECT VALUES (DATE'1971-03-11'), (DATE'1971-01-01')
