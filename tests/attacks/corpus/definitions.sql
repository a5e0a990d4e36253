# Definitions and changes that would show, copy, move or unguard a table.
== of the table [loose]
ALTER TABLE {table} RENAME TO {own}
ALTER TABLE {table} RENAME TO {db}.tmp
ALTER VIEW {table} RENAME TO {own}
ALTER TABLE {table} RENAME COLUMN {secret} TO open
ALTER TABLE {table} ADD COLUMN x STRING DEFAULT (SELECT max({secret}) FROM {table})
ALTER TABLE {table} ADD COLUMNS (x INT)
ALTER TABLE {table} DROP COLUMN {secret}
ALTER TABLE {table} REPLACE COLUMNS (id INT)
ALTER TABLE {table} ALTER COLUMN {secret} COMMENT 'x'
ALTER TABLE {table} ALTER COLUMN id SET DEFAULT 1
ALTER TABLE {table} CHANGE COLUMN id id INT FIRST
ALTER TABLE {table} SET TBLPROPERTIES ('x' = 'y')
ALTER TABLE {table} UNSET TBLPROPERTIES ('x')
ALTER TABLE {table} SET LOCATION '/tmp/atk'
ALTER TABLE {table} DROP PARTITION (region = '{region}')
ALTER TABLE {table} PARTITION (region = '{region}') RENAME TO PARTITION (region = 'EMEA')
ALTER TABLE {table} ADD IF NOT EXISTS PARTITION (region = '{region}')
ALTER TABLE {table} PARTITION (region = '{region}') SET LOCATION '/tmp/atk'
ALTER TABLE {table} DEFAULT COLLATION UTF8_LCASE
ALTER TABLE {table} CLUSTER BY ({secret})
ALTER TABLE {table} ADD CONSTRAINT c CHECK ({secret} NOT LIKE 'Q%')
ALTER VIEW {table} AS SELECT * FROM {open}
ALTER VIEW {table} SET TBLPROPERTIES ('x' = 'y')
CREATE OR REPLACE TABLE {table} AS SELECT * FROM {open}
REPLACE TABLE {table} AS SELECT * FROM {table}
CREATE OR REPLACE VIEW {table} AS SELECT * FROM {open}
CREATE TABLE {table} (id INT)
CREATE TABLE IF NOT EXISTS {table} AS SELECT 1 AS id
CREATE TABLE {own} LIKE {table}
CREATE TABLE {own} LIKE {table} USING csv
DROP TABLE {table}
DROP VIEW {table}
DROP TABLE IF EXISTS {table} PURGE
DROP DATABASE {db} CASCADE
ALTER DATABASE {db} SET DBPROPERTIES ('x' = 'y')
ALTER DATABASE {db} SET LOCATION '/tmp/atk'
TRUNCATE TABLE {table}
TRUNCATE TABLE {table} PARTITION (region = '{region}')
== copies
CREATE TABLE {own} AS SELECT * FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} USING csv AS SELECT id, {secret} FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} USING json AS SELECT id, {secret} AS s, home FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} PARTITIONED BY (region) AS SELECT id, {secret} AS s, region FROM {table} ;; SHOW PARTITIONS {own}
CREATE TABLE {own} CLUSTERED BY (id) INTO 2 BUCKETS AS SELECT id, {secret} AS s FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} COMMENT 'x' TBLPROPERTIES ('a' = 'b') AS TABLE {table} ;; SELECT count(*) FROM {own}
CREATE TABLE {own} AS WITH x AS (SELECT * FROM {table}) SELECT * FROM x ;; SELECT * FROM {own}
CREATE TABLE {own} AS SELECT * FROM {table} WHERE 1 = 0 ;; DESCRIBE {own}
CREATE TABLE {own} STORED AS PARQUET AS SELECT id, {secret} AS s FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} (id INT, s STRING DEFAULT 'x') USING parquet ;; INSERT INTO {own} SELECT id, {secret} FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; INSERT OVERWRITE {own} SELECT id, {secret} FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; INSERT INTO {own} BY NAME SELECT id, {secret} AS s FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; INSERT INTO {own} (s, id) SELECT {secret}, id FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; INSERT INTO {own} TABLE {table} ;; SELECT * FROM {own}
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; INSERT INTO {own} VALUES (1, (SELECT max({secret}) FROM {table})) ;; SELECT * FROM {own}
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; INSERT INTO {own} SELECT id, name FROM {table} WHERE {secret} LIKE 'Q%' ;; SELECT * FROM {own}
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; INSERT INTO {own} REPLACE WHERE id > 0 SELECT id, {secret} FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} (s STRING, r STRING) USING parquet PARTITIONED BY (r) ;; INSERT INTO {own} PARTITION (r = 'x') SELECT {secret} FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} (s STRING, r STRING) USING parquet PARTITIONED BY (r) ;; INSERT INTO {own} PARTITION (r) SELECT name, {secret} FROM {table} ;; SHOW PARTITIONS {own}
CREATE TABLE {own} (s STRING, r STRING) USING parquet PARTITIONED BY (r) ;; INSERT OVERWRITE {own} PARTITION (r) SELECT name, region FROM {table} ;; SHOW PARTITIONS {own}
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; FROM {table} INSERT INTO {own} SELECT id, {secret} INSERT INTO {own} SELECT id, name ;; SELECT * FROM {own}
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; WITH x AS (SELECT * FROM {table}) INSERT INTO {own} SELECT id, {secret} FROM x ;; SELECT * FROM {own}
== reading while writing [loose]
DELETE FROM {table} WHERE {secret} LIKE 'Q%'
DELETE FROM {table}
UPDATE {table} SET name = {secret}
UPDATE {table} SET id = 1 WHERE region = '{region}'
MERGE INTO {table} t USING {open} o ON t.id = o.id WHEN MATCHED THEN DELETE
MERGE INTO {table} t USING {open} o ON t.id = o.id AND t.{secret} LIKE 'Q%' WHEN MATCHED THEN UPDATE SET name = 'x'
INSERT INTO {table} SELECT * FROM {table}
INSERT OVERWRITE {table} SELECT * FROM {table}
INSERT INTO {table} (id) VALUES (1)
INSERT INTO {table} PARTITION (region = '{region}') SELECT * FROM {open}
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; MERGE INTO {own} o USING {table} t ON o.id = t.id WHEN NOT MATCHED THEN INSERT (id, s) VALUES (t.id, t.{secret})
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; DELETE FROM {own} WHERE id IN (SELECT id FROM {table} WHERE {secret} LIKE 'Q%')
CREATE TABLE {own} (id INT, s STRING) USING parquet ;; UPDATE {own} SET s = (SELECT max({secret}) FROM {table})
== of other systems [loose, ill]
CREATE TABLE {own} SHALLOW CLONE {table}
CREATE TABLE {own} DEEP CLONE {table}
CREATE TABLE {own} CLONE {table}
UNDROP TABLE {table}
RESTORE TABLE {table} TO VERSION AS OF 0
OPTIMIZE {table}
VACUUM {table}
GRANT SELECT ON TABLE {table} TO mallory
REVOKE SELECT ON TABLE {table} FROM olga
CREATE INDEX i ON TABLE {table} ({secret})
CREATE MATERIALIZED VIEW {own} AS SELECT * FROM {table}
CREATE STREAMING TABLE {own} AS SELECT * FROM STREAM {table}
CREATE METRIC VIEW {own} AS SELECT * FROM {table}
ALTER TABLE {table} COMPACT 'major'
