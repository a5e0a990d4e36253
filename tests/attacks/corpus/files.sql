# What a table is made of, read or written past it.
== relations by path
SELECT * FROM parquet.`{path}`
SELECT * FROM PARQUET.`{path}`
SELECT * FROM `parquet`.`{path}`
SELECT * FROM spark_catalog.parquet.`{path}`
SELECT * FROM text.`{path}`
SELECT * FROM csv.`{path}`
SELECT * FROM json.`{path}`
SELECT * FROM orc.`{path}`
SELECT * FROM binaryFile.`{path}`
SELECT * FROM `org.apache.spark.sql.parquet`.`{path}`
SELECT * FROM `org.apache.spark.sql.execution.datasources.v2.parquet.ParquetDataSourceV2`.`{path}`
SELECT * FROM parquet.`file:{path}`
SELECT * FROM parquet.`{path}/*.parquet`
SELECT * FROM parquet.`/proc/self/cwd/warehouse/{db}.db/{t}`
SELECT * FROM delta.`{path}`
SELECT * FROM avro.`{path}`
SELECT (SELECT max({secret}) FROM parquet.`{path}`)
SELECT * FROM {open} WHERE id IN (SELECT id FROM parquet.`{path}`)
INSERT INTO parquet.`{path}` SELECT * FROM {open}
DESCRIBE parquet.`{path}`
SELECT content FROM binaryFile.`/etc/passwd`
SELECT * FROM text.`/etc/passwd`
SET spark.sql.runSQLOnFiles=true ;; SELECT * FROM text.`{path}`
== tables and views over a path [refused]
CREATE TABLE {own} USING parquet LOCATION '{path}'
CREATE TABLE {own} USING parquet OPTIONS (path '{path}')
CREATE TABLE {own} (id INT, {secret} STRING) USING parquet OPTIONS ('PATH' = '{path}')
CREATE TABLE {own} USING parquet TBLPROPERTIES ('option.path' = '{path}')
CREATE TABLE {own} USING parquet TBLPROPERTIES ('path' = '{path}')
CREATE EXTERNAL TABLE {own} (id INT) STORED AS PARQUET LOCATION '{path}'
CREATE TABLE {own} (id INT) STORED AS PARQUET LOCATION '{path}'
CREATE TEMP VIEW v USING parquet OPTIONS (path '{path}')
CREATE TEMP VIEW v USING text OPTIONS (path '/etc/passwd')
CREATE TABLE {own} USING jdbc OPTIONS (url 'jdbc:derby:memory:x;create=true', dbtable 'x')
CREATE TABLE {own} LIKE {open} LOCATION '{path}'
CREATE TABLE {own} USING parquet LOCATION '{path}' AS SELECT 1 AS id
CREATE TABLE {own} (a STRING) USING avro OPTIONS (avroSchemaUrl 'file:///etc/hostname')
CREATE DATABASE atk_leak LOCATION '{path}'
CREATE DATABASE atk_leak COMMENT 'x' LOCATION '{path}'
CREATE TABLE {own} AS SELECT 1 AS id ;; ALTER TABLE {own} SET LOCATION '{path}'
CREATE TABLE {own} (id INT, p INT) USING parquet PARTITIONED BY (p) ;; ALTER TABLE {own} ADD PARTITION (p = 1) LOCATION '{path}'
CREATE TABLE {own} (id INT) USING parquet ;; ALTER TABLE {own} SET TBLPROPERTIES ('path' = '{path}') ;; ALTER TABLE {own} SET SERDEPROPERTIES ('path' = '{path}')
LOAD DATA INPATH '{path}' INTO TABLE {own}
LOAD DATA LOCAL INPATH '/etc/passwd' OVERWRITE INTO TABLE {own}
== writing out [refused]
INSERT OVERWRITE DIRECTORY '/tmp/atk' USING csv SELECT * FROM {table}
INSERT OVERWRITE LOCAL DIRECTORY '/tmp/atk' USING parquet SELECT * FROM {table}
INSERT OVERWRITE DIRECTORY '/tmp/atk' STORED AS TEXTFILE SELECT * FROM {table}
INSERT OVERWRITE DIRECTORY USING csv OPTIONS (path '/tmp/atk') SELECT * FROM {table}
INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT * FROM {open}
== where the rows lie
SELECT input_file_name() FROM {table}
SELECT input_file_block_start(), input_file_block_length() FROM {table}
SELECT _metadata FROM {table}
SELECT _metadata.file_path, _metadata.row_index FROM {table}
SELECT {t}._metadata.file_size FROM {table}
SELECT * FROM {table} WHERE _metadata.file_size > 0
SELECT spark_partition_id() < 100 FROM {table}
SELECT count(DISTINCT monotonically_increasing_id()) FROM {table}
REFRESH '{path}'
REFRESH TABLE {table}
MSCK REPAIR TABLE {table}
ALTER TABLE {table} RECOVER PARTITIONS
