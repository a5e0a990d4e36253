# Settings that shape what a statement means, and what they tell.
== set and read
SET spark.sql.ansi.enabled=false ;; SELECT id, {secret}, CAST(name AS INT) FROM {table}
SET spark.sql.caseSensitive=true ;; SELECT SECRET FROM {table}
SET spark.sql.ansi.doubleQuotedIdentifiers=true ;; SELECT "{secret}" FROM {table}
SET spark.sql.parser.quotedRegexColumnNames=true ;; SELECT `.*` FROM {table}
SET spark.sql.variable.substitute=true ;; SELECT count(*) FROM {table}
SET spark.sql.legacy.ctePrecedencePolicy=LEGACY ;; WITH {t} AS (SELECT 1) SELECT * FROM (WITH {t} AS (TABLE {table}) SELECT * FROM {t})
SET spark.sql.optimizer.excludedRules=org.apache.spark.sql.catalyst.optimizer.PushDownPredicates ;; SELECT * FROM {table}
SET spark.sql.optimizer.maxIterations=0 ;; SELECT * FROM {table}
SET spark.sql.session.timeZone=America/Los_Angeles ;; SELECT id, born, {secret} FROM {table}
SET TIME ZONE 'Asia/Tokyo' ;; SELECT id, born FROM {table}
SET TIME ZONE INTERVAL 18 HOURS ;; SELECT id, born FROM {table}
SET spark.sql.files.ignoreCorruptFiles=true ;; SELECT * FROM {table}
SET spark.sql.hive.convertMetastoreParquet=false ;; SELECT * FROM {table}
SET spark.sql.warehouse.dir=/tmp ;; SELECT * FROM {table}
SET spark.sql.catalog.x=org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog ;; SELECT * FROM x.{table}
SET spark.sql.defaultCatalog=x ;; SELECT * FROM {table}
SET spark.sql.codegen.wholeStage=true ;; SELECT id, {secret}, region FROM {table}
SET spark.sql.codegen.factoryMode=FALLBACK ;; SELECT * FROM {table}
SET spark.sql.optimizer.dynamicPartitionPruning.enabled=true ;; SELECT * FROM {table} JOIN {open} USING (region)
SET spark.sql.adaptive.enabled=false ;; SELECT count(*) FROM {table}
SET spark.sql.shuffle.partitions=7 ;; SELECT region, count(*) FROM {table} GROUP BY region
SET spark.sql.thriftServer.incrementalCollect=true ;; SELECT * FROM {table}
SET spark.sql.debug.maxToStringFields=1000 ;; SELECT nope FROM {table}
SET spark.sql.planChangeLog.level=ERROR ;; SELECT * FROM {table}
SET spark.sql.error.messageFormat=STANDARD ;; SELECT raise_error({secret}) FROM {table}
SET spark.sql.maxMetadataStringLength=100000 ;; EXPLAIN SELECT * FROM {table}
SET spark.sql.redaction.string.regex=x ;; EXPLAIN SELECT * FROM {table}
SET spark.sql.path.default={db} ;; SELECT * FROM {t}
SET PATH = {db} ;; SELECT * FROM {t}
SET x=1 ;; SET x ;; SELECT count(*) FROM {table}
SET ROLE admin ;; SELECT * FROM {table}
SET CATALOG spark_catalog ;; SELECT * FROM {table}

SET CATALOG 'spark_catalog'
RESET ;; SELECT {secret} FROM {table}
RESET spark.sql.ansi.enabled ;; SELECT {secret} FROM {table}
RESET spark.sql.session.localRelationCacheThreshold ;; SELECT {secret} FROM {table}
== told [loose]
SET
SET -v
SET spark.sql.warehouse.dir
SET spark.hadoop.javax.jdo.option.ConnectionURL
SET spark.connect.authenticate.token
SELECT current_user(), session_user(), user(), current_catalog(), current_database(), version()
SELECT current_user FROM {table} WHERE current_user() = 'olga'
SELECT * FROM {table} WHERE current_user() <> 'mallory'
SELECT current_path(), current_schema()
== collations
SELECT id FROM {table} WHERE region COLLATE UTF8_LCASE = lower('{region}')
SELECT id, {secret} COLLATE UNICODE_CI FROM {table} WHERE {secret} COLLATE UNICODE_CI = lower('{guess}')
SELECT region COLLATE UTF8_LCASE, count(*) FROM {table} GROUP BY 1
SELECT count(*) FROM {table} WHERE region = '{region}' COLLATE UNICODE_AI
SELECT collation({secret}), collation(region) FROM {table}
SET spark.sql.session.collation.default=UTF8_LCASE ;; SELECT count(*) FROM {table}
CREATE TABLE {own} DEFAULT COLLATION UTF8_LCASE AS SELECT * FROM {table} ;; SELECT * FROM {own}
CREATE TABLE {own} (s STRING COLLATE UTF8_LCASE) ;; INSERT INTO {own} SELECT {secret} FROM {table} ;; SELECT s FROM {own} WHERE s = lower('{guess}')
ALTER DATABASE atk_mine DEFAULT COLLATION UTF8_LCASE
== names of places [loose]
SELECT * FROM paimon.{table}
SELECT * FROM hive_metastore.{table}
SELECT * FROM spark_catalog.{table}
SELECT * FROM system.{table}
SELECT * FROM session.{t}
SELECT * FROM system.session.{t}
SELECT * FROM builtin.{t}
SELECT * FROM default.{t}
USE paimon ;; SELECT * FROM {table}
SET CATALOG paimon ;; SELECT * FROM {table}
USE spark_catalog ;; SELECT {secret} FROM {table}
USE NAMESPACE {db} ;; SELECT {secret} FROM {t}
USE DATABASE {db} ;; TABLE {t}
USE SCHEMA IDENTIFIER('{db}') ;; TABLE {t}
CREATE DATABASE atk_other ;; USE atk_other
