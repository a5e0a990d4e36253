# What outlives a statement: views, functions, caches.
== views
CREATE VIEW {own} AS SELECT * FROM {table} ;; SELECT * FROM {own}
CREATE VIEW {own} AS SELECT id FROM {table} WHERE {secret} LIKE 'Q%' ;; SELECT * FROM {own}
CREATE VIEW {own} (a, b) AS SELECT id, {secret} FROM {table} ;; @olga SELECT * FROM {own} ;; SELECT * FROM {own}
CREATE VIEW {own} AS SELECT * FROM {open} ;; ALTER VIEW {own} AS SELECT * FROM {table} ;; SELECT * FROM {own}
CREATE VIEW {own} AS SELECT * FROM {open} ;; CREATE OR REPLACE VIEW {own} AS SELECT * FROM {table} ;; SELECT * FROM {own}
CREATE VIEW {own} WITH SCHEMA EVOLUTION AS SELECT * FROM {table} ;; SELECT * FROM {own}
CREATE VIEW {own} DEFAULT COLLATION UTF8_LCASE AS SELECT * FROM {table} ;; SELECT * FROM {own}
@olga CREATE VIEW {own} AS SELECT * FROM {table} ;; SELECT * FROM {own}
@olga CREATE VIEW {own} AS SELECT id, {secret} AS x FROM {table} ;; SELECT x FROM {own}
@olga CREATE VIEW {own} AS SELECT o.id, (SELECT count(*) FROM {table}) AS n FROM {open} o ;; SELECT * FROM {own}
@olga CREATE VIEW {own} AS WITH open AS (SELECT * FROM {table}) SELECT * FROM open ;; SELECT * FROM {own}
@olga CREATE VIEW {own} AS SELECT * FROM {table} ;; SELECT count(*) FROM {own} WHERE region = '{region}'
@olga CREATE VIEW {own} AS SELECT * FROM {table} ;; CREATE OR REPLACE VIEW {own} AS SELECT * FROM {own}
CREATE TEMP VIEW v AS SELECT * FROM {table} ;; SELECT count(*) FROM v WHERE region = '{region}'
CREATE TEMP VIEW v AS SELECT * FROM {table} ;; SELECT {secret} FROM v
CREATE TEMP VIEW v DEFAULT COLLATION UTF8_LCASE AS SELECT * FROM {table} ;; SELECT * FROM v
CREATE TEMP VIEW v TBLPROPERTIES ('x' = 'y') AS SELECT * FROM {table} ;; CREATE TABLE {own} AS SELECT * FROM v ;; SELECT * FROM {own}
CREATE TEMP VIEW v AS SELECT * FROM {table} ;; CREATE VIEW {own} AS SELECT * FROM v
CREATE TEMP VIEW v AS SELECT * FROM {table} ;; INSERT INTO v SELECT * FROM {open}
CREATE TEMP VIEW v AS SELECT * FROM {table} ;; SELECT * FROM v JOIN {table} USING (id, {secret})
CREATE TEMP VIEW v AS SELECT * FROM {table} ;; CACHE TABLE v ;; SELECT * FROM v
CREATE TEMP VIEW v AS SELECT 1 AS a FROM {table} WHERE 1 / (id - {hidden_id}) > 0 ;; SELECT count(*) FROM v
== caches
CACHE TABLE {table} ;; SELECT {secret}, region FROM {table}
CACHE LAZY TABLE {table} ;; SELECT count(*) FROM {table}
CACHE TABLE c AS SELECT * FROM {table} ;; SELECT * FROM c
CACHE TABLE c OPTIONS ('storageLevel' 'DISK_ONLY') AS SELECT id, {secret} FROM {table} ;; SELECT * FROM c
CACHE LAZY TABLE c AS SELECT * FROM {table} ;; SELECT count(*) FROM c ;; UNCACHE TABLE c
@olga CACHE TABLE {table} ;; SELECT * FROM {table} ;; @olga UNCACHE TABLE {table}
@olga CACHE TABLE {table} ;; SELECT count(*), max({secret}) FROM {table} ;; @olga UNCACHE TABLE {table}
@olga CACHE TABLE c AS SELECT * FROM {table} ;; SELECT * FROM c
@olga CACHE TABLE c AS SELECT id, {secret} FROM {table} ;; SELECT id, {secret} FROM {table} ;; @olga UNCACHE TABLE c
@olga CACHE TABLE c AS SELECT count(*) FROM {table} ;; SELECT count(*) FROM {table} ;; @olga UNCACHE TABLE c
@olga CREATE TEMP VIEW v AS SELECT * FROM {table} ;; SELECT * FROM v
@olga CREATE GLOBAL TEMP VIEW {t}_g AS SELECT * FROM {table} ;; SELECT * FROM global_temp.{t}_g ;; @olga DROP VIEW global_temp.{t}_g
UNCACHE TABLE {table}
CLEAR CACHE
== functions [refused]
CREATE TEMPORARY FUNCTION f() RETURNS STRING RETURN (SELECT max({secret}) FROM {table})
CREATE TEMPORARY FUNCTION f() RETURNS TABLE (x STRING) RETURN SELECT {secret} FROM {table}
CREATE FUNCTION {own}() RETURNS STRING RETURN (SELECT max({secret}) FROM {table})
CREATE TEMPORARY FUNCTION upper(x STRING) RETURNS STRING RETURN x
CREATE TEMPORARY FUNCTION f AS 'java.lang.Runtime'
CREATE FUNCTION {own} AS 'org.apache.hadoop.hive.ql.udf.UDFLength' USING JAR '/tmp/x.jar'
CREATE OR REPLACE FUNCTION {own} AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFReflect2'
SELECT reflect('java.lang.System', 'getProperty', 'user.name') FROM {table}
SELECT java_method('java.lang.System', 'getenv', 'PATH') FROM {table}
SELECT try_reflect('java.nio.file.Files', 'readString', '/etc/passwd') FROM {table}
SELECT system.builtin.reflect('java.lang.System', 'getProperty', 'user.name') FROM {table}
SELECT `REFLECT`('java.lang.System', 'getProperty', 'user.name') FROM {table}
SELECT xpath_string('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a>&e;</a>', {secret}) FROM {table}
SELECT from_xml({secret}, 'a STRING', map('rowValidationXSDPath', '/etc/passwd')) FROM {table}
SELECT from_avro({secret}, '{"type": "string"}') FROM {table}
SELECT from_protobuf({secret}, 'M', '/etc/passwd') FROM {table}
DROP FUNCTION {own}
DROP TEMPORARY FUNCTION upper
REFRESH FUNCTION {own}
