"""Random statements from a weighted grammar of Spark SQL's query forms, over the tables of `world`.

A rule's alternatives are texts in which `<name>` stands for another rule. The first alternative of every
rule ends it: it is taken when the text has become deep. What comes out is mostly SQL, and often valid:
every table of the world has the same columns, and every relation of the grammar has `id`, `name`, `secret`
and `region` unless it says otherwise.
"""

from __future__ import annotations

import random
import re

from tests.attacks import world

_PLACE = re.compile(r"<([a-z_]+)>")
MAX_DEPTH = 7
Rule = list[tuple[int, str]]

GRAMMAR: dict[str, Rule] = {
    "statement": [
        (30, "<query>"),
        (4, "<query> ORDER BY <n>"),
        (3, "<query> LIMIT <n>"),
        (6, "<pipe>"),
        (4, "WITH <ctes> <query>"),
        (3, "FROM <relation> SELECT <outputs> <clauses>"),
        (2, "CREATE OR REPLACE TEMP VIEW <name_of_view> AS <query> ;; SELECT * FROM <name_of_view>"),
        (1, "CACHE TABLE <name_of_view> AS <query> ;; SELECT * FROM <name_of_view>"),
        (1, "CREATE TABLE atk_mine.<own> AS <query> ;; SELECT * FROM atk_mine.<own>"),
        (1, "CREATE VIEW atk_mine.<own> AS <query> ;; SELECT * FROM atk_mine.<own>"),
        (1, "EXPLAIN <mode> <query>"),
        (1, "DESCRIBE QUERY <query>"),
        (1, "DECLARE OR REPLACE v = <scalar> ;; SELECT v, <expr> FROM <relation>"),
        (1, "SHOW <showing> <table>"),
    ],
    "query": [
        (8, "SELECT <outputs> FROM <table>"),
        (16, "SELECT <outputs> FROM <relation> <clauses>"),
        (3, "SELECT DISTINCT <outputs> FROM <relation>"),
        (5, "SELECT <key>, <aggregate> AS secret FROM <relation> <where> GROUP BY <grouping> <having>"),
        (3, "SELECT <aggregate>, <aggregate> FROM <relation>"),
        (3, "SELECT * FROM <relation>"),
        (1, "TABLE <table>"),
        (2, "<query> <setting> <query>"),
        (1, "VALUES (<scalar>)"),
        (1, "SELECT <scalar>"),
        (2, "SELECT id, <window> AS secret, region, name FROM <relation>"),
        (
            2,
            "SELECT * FROM (SELECT region, amount FROM <table>) PIVOT (sum(amount) FOR region IN ('EMEA'))",
        ),
        (2, "SELECT * FROM (SELECT id, name, secret FROM <relation>) UNPIVOT (v FOR k IN (name, secret))"),
        (2, "SELECT id, name, secret, region FROM <relation> QUALIFY <window> = <number>"),
    ],
    "outputs": [
        (6, "id, name, secret, region"),
        (4, "*"),
        (3, "id, <expr> AS secret, name, region"),
        (2, "<expr> AS id, <expr> AS name, <expr> AS secret, <expr> AS region"),
        (2, "id, <expr>"),
        (1, "* EXCEPT (id)"),
        (1, "struct(*) AS s"),
        (1, "to_json(struct(*)) AS secret, 1 AS id, 'x' AS name, 'y' AS region"),
        (1, "count(*)"),
        (1, "id, <expr> AS x, upper(x) AS secret, name, region"),
    ],
    "clauses": [
        (6, ""),
        (6, "<where>"),
        (1, "<where> ORDER BY secret, id"),
        (1, "<where> ORDER BY <expr>, id LIMIT <n>"),
        (1, "CLUSTER BY secret"),
        (1, "LATERAL VIEW explode(tags) lv AS tag"),
        (1, "WINDOW w AS (PARTITION BY region)"),
    ],
    "where": [(2, ""), (8, "WHERE <condition>")],
    "having": [(4, ""), (1, "HAVING <aggregate> IS NOT NULL"), (1, "HAVING count(*) > <number>")],
    "relation": [
        (14, "<table>"),
        (6, "<table> AS t"),
        (5, "(<query>)"),
        (2, "<table> AS t TABLESAMPLE (100 PERCENT)"),
        (3, "<table> a JOIN <table> b USING (id)"),
        (3, "<table> a <join> <table> b ON a.id = b.id AND a.<key> = b.<key>"),
        (2, "<table> NATURAL JOIN <table>"),
        (2, "(<query>) q"),
        (2, "<table> t, LATERAL (SELECT t.secret AS s2, <scalar> AS s3)"),
        (2, "<table> t, LATERAL (SELECT <expr> AS s2 FROM <table> u WHERE u.id = t.id) x"),
        (1, "<table> t, LATERAL explode(t.tags) AS e(tag)"),
        (2, "(<pipe>)"),
        (1, "(TABLE <table>)"),
        (1, "VALUES (1, 'Ann', 'x', 'EMEA'), (2, NULL, <text>, <text>) AS t(id, name, secret, region)"),
        (1, "(WITH <ctes> SELECT * FROM c1)"),
        (1, "<table> AS t(id, name, secret, amount, born, region, tags, home, props)"),
    ],
    "join": [
        (1, "JOIN"),
        (1, "LEFT JOIN"),
        (1, "RIGHT JOIN"),
        (1, "FULL JOIN"),
        (1, "LEFT SEMI JOIN"),
        (1, "LEFT ANTI JOIN"),
    ],
    "setting": [(1, "UNION ALL"), (1, "UNION"), (1, "INTERSECT"), (1, "EXCEPT"), (1, "MINUS")],
    "ctes": [
        (4, "c1 AS (SELECT * FROM <table>)"),
        (3, "c1 AS (<query>)"),
        (2, "c1 AS (SELECT * FROM <table>), c2 AS (SELECT * FROM c1 <where>)"),
        (1, "masked AS (<query>), c1 AS (SELECT * FROM masked)"),
        (
            1,
            "RECURSIVE c1 (id, secret) AS (SELECT id, secret FROM <table> WHERE id < 3 UNION ALL "
            "SELECT id + 1, secret FROM c1 WHERE id < 4)",
        ),
        (
            1,
            "RECURSIVE c1 (id) AS (SELECT 1 UNION ALL SELECT c1.id + 1 FROM c1 "
            "JOIN <table> t ON t.id = c1.id WHERE c1.id < 5)",
        ),
    ],
    "pipe": [
        (3, "FROM <table> |> <step>"),
        (3, "FROM <table> |> <step> |> <step>"),
        (2, "FROM <relation> |> <step> |> <step> |> <step>"),
    ],
    "step": [
        (3, "WHERE <condition>"),
        (2, "SELECT id, name, secret, region"),
        (1, "SELECT *"),
        (2, "EXTEND <expr> AS x<n>"),
        (2, "SET secret = <expr>"),
        (1, "SET region = 'EMEA'"),
        (1, "DROP name"),
        (1, "AS p"),
        (2, "AGGREGATE <aggregate> AS secret, count(*) AS id GROUP BY region"),
        (1, "AGGREGATE <aggregate>"),
        (1, "JOIN <table> USING (id)"),
        (1, "ORDER BY secret, id |> LIMIT <n>"),
        (1, "EXCEPT ALL SELECT * FROM <table>"),
        (1, "TABLESAMPLE (100 PERCENT)"),
    ],
    "condition": [
        (5, "id > <number>"),
        (4, "region = <text>"),
        (4, "<expr> IS NOT NULL"),
        (3, "secret LIKE <text>"),
        (2, "<expr> = <expr>"),
        (2, "<condition> AND <condition>"),
        (2, "<condition> OR <condition>"),
        (1, "NOT (<condition>)"),
        (2, "EXISTS (SELECT 1 FROM <table> e WHERE <condition>)"),
        (2, "id IN (SELECT id FROM <relation>)"),
        (1, "id NOT IN (SELECT id FROM <table> WHERE <condition>)"),
        (1, "(id, region) IN (SELECT id, region FROM <table>)"),
        (1, "1 / (id - <number>) IS NOT NULL"),
        (1, "secret BETWEEN <text> AND <text>"),
        (1, "amount > <number>"),
        (1, "born > DATE'1971-02-01'"),
        (1, "home.street LIKE <text>"),
        (1, "array_contains(tags, <text>)"),
        (1, "<scalar> IS NOT NULL"),
    ],
    "expr": [
        (6, "secret"),
        (3, "id"),
        (3, "name"),
        (3, "region"),
        (2, "CAST(amount AS STRING)"),
        (2, "upper(<expr>)"),
        (2, "concat(<expr>, <expr>)"),
        (2, "coalesce(<expr>, <text>)"),
        (2, "CASE WHEN <condition> THEN <expr> ELSE <expr> END"),
        (1, "home.street"),
        (1, "tags[0]"),
        (1, "CAST(props AS STRING)"),
        (1, "to_json(home)"),
        (1, "CAST(born AS STRING)"),
        (1, "substr(<expr>, <n>)"),
        (1, "reverse(<expr>)"),
        (1, "hex(<expr>)"),
        (1, "base64(CAST(<expr> AS BINARY))"),
        (1, "<scalar>"),
        (1, "transform(tags, x -> concat(x, <expr>))"),
        (1, "filter(tags, x -> x LIKE <text>)"),
        (1, "aggregate(tags, '', (a, x) -> concat(a, x))"),
        (1, "map_values(transform_values(props, (k, v) -> v + 1))"),
        (1, "named_struct('a', <expr>, 'b', <expr>).a"),
        (1, "<expr> COLLATE UTF8_LCASE"),
        (1, "try_variant_get(to_variant_object(home), '$.street', 'string')"),
        (1, "parse_json(to_json(struct(<expr> AS a))):a::string"),
        (1, "CAST(<expr> AS INT)"),
        (1, "try_cast(<expr> AS DATE)"),
        (1, "raise_error(<expr>)"),
        (1, "if(<condition>, <expr>, <expr>)"),
        (1, "split(<expr>, '-')[0]"),
        (1, "md5(<expr>)"),
        (1, "len(<expr>)"),
        (1, "element_at(tags, <n>)"),
    ],
    "scalar": [
        (3, "(SELECT max(secret) FROM <table>)"),
        (2, "(SELECT count(*) FROM <table>)"),
        (1, "(SELECT max(<expr>) FROM <relation>)"),
        (1, "(SELECT min(name) FROM <table> WHERE <condition>)"),
    ],
    "aggregate": [
        (3, "count(*)"),
        (3, "max(<expr>)"),
        (2, "min(secret)"),
        (1, "count(DISTINCT <expr>)"),
        (1, "sort_array(collect_set(<expr>))"),
        (1, "count(*) FILTER (WHERE <condition>)"),
        (1, "sum(amount)"),
        (1, "max_by(secret, id)"),
        (1, "listagg(<expr>, ',') WITHIN GROUP (ORDER BY <expr>)"),
        (1, "bool_or(<condition>)"),
    ],
    "window": [
        (2, "count(*) OVER ()"),
        (2, "row_number() OVER (ORDER BY secret, id)"),
        (2, "lag(<expr>) OVER (ORDER BY id)"),
        (1, "max(<expr>) OVER (PARTITION BY <key>)"),
        (1, "sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)"),
    ],
    "grouping": [(6, "<key>"), (1, "ROLLUP (<key>)"), (1, "CUBE (<key>, region)"), (1, "ALL")],
    "key": [(3, "region"), (2, "id"), (2, "secret"), (1, "name")],
    "text": [
        (3, "'EMEA'"),
        (2, f"'{world.HIDDEN_REGION}'"),
        (1, f"'{world.GUESS}'"),
        (2, "'%'"),
        (1, "'Q%'"),
        (1, "NULL"),
        (1, "''"),
    ],
    "number": [(3, "0"), (3, "3"), (1, "1000"), (1, str(world.HIDDEN_ID)), (1, "7919")],
    "n": [(2, "1"), (2, "2"), (1, "3")],
    "mode": [(1, ""), (1, "EXTENDED"), (1, "FORMATTED"), (1, "COST"), (1, "CODEGEN")],
    "showing": [(1, "COLUMNS IN"), (1, "PARTITIONS"), (1, "CREATE TABLE"), (1, "TBLPROPERTIES")],
    "name_of_view": [(3, "tv"), (1, "masked"), (1, "both"), (1, "open")],
    "table": [
        *((4, f"{world.LIVE}.{shape.name}") for shape in world.SHAPES if shape.table != "denied"),
        *((1, shape.name) for shape in world.SHAPES),
        (1, f"{world.LIVE}.denied"),
        (1, f"spark_catalog.{world.LIVE}.both"),
        (3, f"{world.LIVE}.open"),
    ],
}


class Grammar:
    """Draws texts. The same seed draws the same ones."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._made = 0

    def statement(self) -> str:
        """Return a statement, or several with `;;` between them."""
        self._made += 1
        text = self.draw("statement", 0)
        return text.replace("<own>", f"f{self._made}")

    def draw(self, rule: str, depth: int = 0) -> str:
        alternatives = GRAMMAR[rule]
        weights = [weight for weight, _ in alternatives]
        if depth >= MAX_DEPTH:
            text = alternatives[0][1]
        else:
            text = self.chance.choices([text for _, text in alternatives], weights)[0]
        drawn: dict[str, str] = {}

        def place(found: re.Match[str]) -> str:
            name = found[1]
            if name == "own":
                return found[0]
            if name == "name_of_view":  # one name throughout
                drawn.setdefault(name, self.draw(name, depth + 1))
                return drawn[name]
            return self.draw(name, depth + 1)

        return _PLACE.sub(place, text)
