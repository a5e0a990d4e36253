# Texts that are nearly statements, or not at all.
== broken [ill, loose]
SELECT
SELECT {secret}
SELECT {secret} FROM
SELECT {secret} FROM {table} WHERE
SELECT {secret} FROM {table} {table} {table}
SELECT {secret} FROM ({table}
SELECT {secret}) FROM {table}
SELECT {secret} FROM {table} WHERE name = 'unclosed
SELECT {secret} FROM {table} WHERE name = "unclosed
SELECT `{secret} FROM {table}
SELECT {secret} FROM {table} /* unclosed
SELECT {secret},,id FROM {table}
SELECT * * FROM {table}
SELECT FROM {table}
FROM {table} FROM {table}
{table}
{secret}
;
;;
SELECT {secret} FROM {table} UNION
SELECT {secret} FROM {table} GROUP BY
SELECT {secret} FROM {table} LIMIT 'x'
SELECT {secret} FROM {table} LIMIT -1
SELECT {secret} FROM {table} LIMIT id
SELECT {secret} FROM {table}..x
SELECT {secret} FROM .{table}
SELECT {secret} FROM a.b.c.{table}
SELECT {table}..{secret} FROM {table}
SELECT ((((((((((((((((((((((((({secret}))))))))))))))))))))))))) FROM {table}
SELECT {secret} FROM ((((((((((((((((((((({table})))))))))))))))))))))
SELECT 99999999999999999999999999999999999999999999, {secret} FROM {table}
SELECT 1e999999, {secret} FROM {table}
SELECT DATE'nope', {secret} FROM {table}
SELECT CAST({secret} AS nope) FROM {table}
SELECT nope({secret}) FROM {table}
SELECT max(max({secret})) FROM {table}
SELECT {secret}, max(id) FROM {table}
SELECT sum({secret}.x) FROM {table}
SELECT {secret}.x.y.z FROM {table}
SELECT {secret}[0] FROM {table}
SELECT tags.x FROM {table}
SELECT nope.* FROM {table}
SELECT nope FROM {table}
SELECT id FROM {table} WHERE nope = 1
SELECT id FROM {table} ORDER BY 99
SELECT id FROM {table} GROUP BY 99
SELECT id, id + 'x' - DATE'2020-01-01' FROM {table}
SELECT {secret} FROM {table} WHERE {secret}
SELECT {secret} + tags FROM {table}
SELECT id IN (SELECT id, name FROM {table}) FROM {open}
SELECT * FROM {table} UNION SELECT 1
SELECT explode({secret}) FROM {table}
SELECT explode(tags), explode(tags) FROM {table}
INSERT INTO
CREATE VIEW
SET =
SET ===
SET x y z
EXPLAIN
DESCRIBE
SHOW
USE
