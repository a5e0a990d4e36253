# Comments, hints, quotes, escapes, letters that look alike, and what else a lexer may read otherwise.
== comments and hints [ill]
SELECT /* {denied} */ {secret} FROM {table}
SELECT {secret}/**/FROM/**/{table}
SELECT /*+ COALESCE(1) */ * FROM {table}
SELECT /*+ BROADCAST({table}), nope(x) */ id, {secret} FROM {table}
SELECT /*+ REPARTITION(2, {secret}) */ id FROM {table}
SELECT /*+ REPARTITION_BY_RANGE({secret}) */ id FROM {table}
SELECT /*+ MAPJOIN(x) */ /*+ SKEW('x') */ id FROM {table}
SELECT id -- , {secret}⏎ FROM {table}
SELECT id --\⏎, {secret}⏎ FROM {table}
SELECT id -- \⏎/*⏎ FROM {table} --*/
SELECT id /* /* nested */ , {secret} */ FROM {table}
SELECT id /* unclosed /* , */ , {secret} */ FROM {table}
SELECT id /*! , {secret} */ FROM {table}
SELECT id /*/ , {secret} /*/ FROM {table}
SELECT id # , {secret}⏎ FROM {table}
SELECT 'a' --' , {secret}⏎ AS x FROM {table}
SELECT "/*" AS a, {secret} AS b, "*/" AS c FROM {table}
SELECT '--', {secret} FROM {table}
SELECT `id` /* ` */ , {secret} /* ` */ FROM {table}
-- a comment⏎SELECT {secret} FROM {table}
/* SELECT 1 */ SELECT {secret} FROM {table} /* ; */
SELECT {secret} FROM {table};
SELECT {secret} FROM {table} ; -- the end
SELECT 1; SELECT {secret} FROM {table}
;SELECT {secret} FROM {table}
SELECT id FROM {table} /*+ COALESCE(1) */
SELECT /*+*/ id FROM {table}
SELECT id CLUSTER /* FROM {open} */ FROM {table}
SELECT id FROM {table} CLUSTER BY {secret}
SELECT id FROM {table} DISTRIBUTE BY {secret} SORT BY {secret}
SELECT id CLUSTER FROM {table}
SELECT {secret} FROM {table} -- ⏎ WHERE false
== quotes and escapes [ill]
SELECT 'it''s', {secret} FROM {table}
SELECT 'it\'s', {secret} FROM {table} WHERE name <> '\''
SELECT r'\', {secret} FROM {table}
SELECT R"\", {secret} FROM {table} -- "
SELECT '\\', {secret} FROM {table} -- '
SELECT 'a' 'b', {secret} FROM {table}
SELECT "{secret}" FROM {table}
SELECT "{secret}", `{secret}` FROM {table}
SELECT `{secret}` AS `a``b` FROM `{db}` . `{t}`
SELECT `{db}.{t}`.id FROM {table}
SELECT * FROM `{db}.{t}`
SELECT {secret} FROM {db} . {t}
SELECT {secret} FROM {db}/**/./**/{t}
SELECT '\u0051\u005A' || {secret} FROM {table}
SELECT '\121ZX', '\x51', {secret} FROM {table}
SELECT {secret} AS `⏎` FROM {table}
SELECT {secret}`x` FROM {table}
SELECT $${secret}$$ FROM {table}
SELECT {secret} FROM {table} WHERE name = 'a⏎b' OR name = "c⏎d"
SELECT X'51', {secret} FROM {table}
SELECT 1e, {secret} FROM {table}
SELECT 1.e, {secret} FROM {table}
SELECT .5AS x, {secret} FROM {table}
SELECT 1 AS`x`,`{secret}`FROM {table}
SELECT id`x`,*FROM`{db}`.`{t}`WHERE id=1
== letters [ill]
sElEcT {secret} fRoM {table}
ſELECT {secret} FROM {table}
SELECT {secret} FROM {table}
SELECT {secret}　FROM {table}
SELECT {secret} FROM {table}
SELECT​{secret} FROM {table}
SELECT {secret} FROM﻿{table}
SELECT {secret} FROM {db}․{t}
SELECT ѕecret FROM {table}
SELECT `ѕecret` FROM {table}
SELECT {secret} FROM `{t}`
SELECT {secret} FROM `{t} `
SELECT {secret} FROM ` {t}`
SELECT `İd`, `ıd` FROM {table}
SELECT "SECRET", `SECRET`, `Secret` FROM {table}
SELECT * FROM `{db}`.`MASKED`, `ATK_LIVE`.`BOTH`
SELECT {secret} FROM spark_catalog.ATK_LIVE.{t}
SELECT {secret} FROM ſpark_catalog.{table}
SELECT {secret} FROM `spark_catalog `.{table}
SELECT "𝓢" AS 𝓢, {secret} FROM {table}
SELECT '‮', {secret} FROM {table}
== keywords for names [ill]
WITH `select` AS (VALUES (1)) SELECT {secret} FROM select k, {table}
WITH `values` AS (SELECT 1 x) SELECT {secret} FROM values, {table}
SELECT 1 x FROM SELECT {t}
SELECT 1 FROM FROM {table}
SELECT * FROM {open} NATURAL JOIN DESCRIBE {t}
SELECT * FROM {table} AS table, {open} AS lateral
SELECT table.{secret} FROM {table} AS table
SELECT from.{secret} FROM {table} from
SELECT {secret} from FROM {table} where WHERE where.id = 1
SELECT date '1999-01-01', timestamp, {secret} FROM (SELECT {secret}, 1 AS timestamp FROM {table})
SELECT interval, {secret} FROM (SELECT {secret}, 1 interval FROM {table})
SELECT current_user, current_database, {secret} FROM (SELECT {secret}, 1 AS current_user, 2 AS current_database FROM {table})
SELECT x.`*` FROM {table} x
SELECT left.id FROM {table} left
SELECT id full FROM {table} full JOIN {open} ON true
