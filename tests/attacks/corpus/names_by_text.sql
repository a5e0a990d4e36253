# Statements and names that are made of text: IDENTIFIER, EXECUTE IMMEDIATE, scripts, variables, parameters.
== IDENTIFIER
SELECT {secret} FROM IDENTIFIER('{table}')
SELECT * FROM IDENTIFIER('{db}' || '.' || '{t}')
SELECT IDENTIFIER('{secret}') FROM {table}
SELECT IDENTIFIER('{t}.{secret}') FROM {table}
SELECT IDENTIFIER('max')({secret}) FROM {table}
SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getProperty', 'user.name')
WITH IDENTIFIER('x') AS (SELECT * FROM {table}) SELECT * FROM x
SELECT * FROM {db}.IDENTIFIER('{t}')
SELECT * FROM IDENTIFIER('{db}').{t}
SELECT * FROM IDENTIFIER(lower('{denied}'))
CREATE TABLE IDENTIFIER('{own}') AS SELECT * FROM {table}
DESCRIBE IDENTIFIER('{table}')
USE IDENTIFIER('{db}')
== statements as text
EXECUTE IMMEDIATE 'SELECT * FROM {table}'
EXECUTE IMMEDIATE 'SELECT {secret} FROM {table} WHERE id = ?' USING 1
EXECUTE IMMEDIATE 'SELECT * FROM ' || '{table}'
DECLARE q = 'SELECT * FROM {table}' ;; EXECUTE IMMEDIATE q
DECLARE r STRING ;; EXECUTE IMMEDIATE 'SELECT max({secret}) FROM {table}' INTO r
EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \'SELECT * FROM {table}\''
DECLARE q = 'SELECT 1' ;; SET VAR q = 'TABLE {table}' ;; EXECUTE IMMEDIATE q
EXECUTE IMMEDIATE 'CREATE TEMP VIEW w AS SELECT {secret} FROM {table}' ;; SELECT * FROM w
EXECUTE IMMEDIATE (SELECT 'SELECT * FROM {table}')
EXECUTE IMMEDIATE 'SELECT * FROM IDENTIFIER(?)' USING '{table}'
DECLARE q = 'SELECT 1' ;; SET VAR q = (SELECT max({secret}) FROM {table}) ;; EXECUTE IMMEDIATE q
== statements as text that is computed [refused]
EXECUTE IMMEDIATE reverse('{table} ELBAT')
DECLARE q STRING ;; SET VAR q = (SELECT max({secret}) FROM {table}) ;; EXECUTE IMMEDIATE q
== functions
CREATE TEMPORARY FUNCTION own(x STRING) RETURNS STRING RETURN upper(x) ;; SELECT own({secret}), id FROM {table}
CREATE TEMPORARY FUNCTION own(x STRING) RETURNS STRING RETURN raise_error(x) ;; SELECT id FROM {table} WHERE own({secret}) = 'x'
CREATE TEMPORARY FUNCTION rows_of(x STRING) RETURNS TABLE (y STRING) RETURN VALUES (x) ;; SELECT r.* FROM {table}, LATERAL rows_of({secret}) r
== functions that read [refused]
CREATE TEMPORARY FUNCTION peek() RETURNS STRING RETURN (SELECT max({secret}) FROM {table})
CREATE TEMPORARY FUNCTION peek(x STRING DEFAULT (SELECT max({secret}) FROM {table})) RETURNS STRING RETURN x
CREATE TEMPORARY FUNCTION peek() RETURNS TABLE (x STRING) RETURN SELECT {secret} FROM {table}
CREATE TEMPORARY FUNCTION mask(x STRING) RETURNS STRING RETURN x
== scripts [ill]
BEGIN DECLARE x STRING; SET x = (SELECT max({secret}) FROM {table}); SELECT x; END
BEGIN SELECT * FROM {table}; END
BEGIN FOR r AS SELECT * FROM {table} DO SELECT r.{secret}; END FOR; END
BEGIN IF EXISTS (SELECT 1 FROM {table} WHERE {secret} LIKE 'Q%') THEN SELECT 1; ELSE SELECT 2; END IF; END
BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'failed'; SELECT 1 / 0 FROM {table} WHERE region = '{region}'; END
BEGIN WHILE (SELECT count(*) FROM {table}) < 0 DO SELECT 1; END WHILE; END
BEGIN ATOMIC SELECT * FROM {table}; END
lbl: BEGIN SELECT * FROM {table}; LEAVE lbl; END lbl
BEGIN DECLARE c CURSOR FOR SELECT {secret} FROM {table}; OPEN c; END
== session variables
DECLARE v STRING DEFAULT (SELECT max({secret}) FROM {table}) ;; SELECT v
DECLARE v = 'x' ;; SET VAR v = (SELECT max({secret}) FROM {table}) ;; SELECT v
DECLARE n INT ;; SET VAR n = (SELECT count(*) FROM {table}) ;; SELECT n
DECLARE v = '{table}' ;; SELECT * FROM IDENTIFIER(v)
DECLARE v = '{guess}' ;; SELECT id FROM {table} WHERE {secret} = v
DECLARE {secret} = 'mine' ;; SELECT id, {secret} FROM {table}
DECLARE {secret} = 'mine' ;; SELECT session.{secret}, id FROM {table}
DECLARE region = 'EMEA' ;; SELECT count(*) FROM {table} WHERE region = session.region
DECLARE a STRING ;; DECLARE b STRING ;; SET VAR (a, b) = (SELECT max({secret}), max(name) FROM {table}) ;; SELECT a, b
DECLARE v = 1 ;; CREATE TEMP VIEW w AS SELECT id + v AS x, {secret} FROM {table} ;; SELECT * FROM w
DECLARE v STRING DEFAULT 'x' ;; SET VAR v = DEFAULT ;; SELECT v, count(*) FROM {table}
== parameters
SELECT * FROM {table} WHERE id = :id
SELECT * FROM {table} WHERE id = ?
SELECT * FROM IDENTIFIER(:t)
SELECT :x FROM {table}
== substitution [refused]
SET x={table} ;; SELECT * FROM ${x}
SET x={table} ;; SELECT * FROM ${hiveconf:x}
SET y=FROM {table} ;; SELECT * ${y}
SELECT '${env:HOME}', * FROM {table}
SELECT '${system:user.name}'
SELECT * FROM {table} WHERE name = '${spark:spark.app.name}'
