"""What Superset asks a database for and how it draws a chart; runs where `apache-superset` is installed.

`client.py URI SCHEMA DIRECTORY`: the database by its SQLAlchemy URI, which of its schemas to look at, and
where Superset keeps its own database. Prints a JSON object: step by step, what it was answered.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

GRAINS = ("PT1H", "P1D", "P1W", "P1M", "P3M", "P1Y", "P1W/1970-01-03T00:00:00Z", "1969-12-28T00:00:00Z/P1W")
CONFIG = """
SECRET_KEY = "of a test, and of nothing else: 0123456789"
SQLALCHEMY_DATABASE_URI = "sqlite:///{directory}/superset.db"
CACHE_CONFIG = DATA_CACHE_CONFIG = {{"CACHE_TYPE": "NullCache"}}
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {{"CACHE_TYPE": "SimpleCache"}}
"""


def steps(uri: str, schema: str) -> dict[str, Callable[[], Any]]:
    from superset.connectors.sqla.models import SqlaTable
    from superset.extensions import db
    from superset.models.core import Database
    from superset.sql.parse import Table

    database = Database(database_name="of the test", sqlalchemy_uri="hive://placeholder")
    database.set_sqlalchemy_uri(uri)
    db.session.add(database)
    db.session.commit()
    spec = database.db_engine_spec
    customer = Table("customer", schema)
    dataset = SqlaTable(table_name="customer", schema=schema, database=database)
    db.session.add(dataset)
    db.session.commit()

    def fetched() -> Any:
        dataset.fetch_metadata()
        return [[one.column_name, one.type, one.is_dttm] for one in dataset.columns]

    def chart(grain: str | None) -> Any:
        found = dataset.query(
            {
                "granularity": "joined",
                "columns": ["region"],
                "metrics": [
                    {
                        "expressionType": "SIMPLE",
                        "column": {"column_name": "spent"},
                        "aggregate": "SUM",
                        "label": "SUM(spent)",
                    },
                    {"expressionType": "SQL", "sqlExpression": "COUNT(DISTINCT email)", "label": "people"},
                ],
                "filter": [{"col": "name", "op": "LIKE", "val": "%e%"}],
                "from_dttm": datetime(1999, 1, 1),  # noqa: DTZ001 - so Superset has them
                "to_dttm": datetime(2030, 1, 1),  # noqa: DTZ001 - so Superset has them
                "is_timeseries": grain is not None,
                "row_limit": 100,
                "orderby": [],
                "extras": {"time_grain_sqla": grain} if grain else {},
            }
        )
        rows = sorted(map(repr, found.df.astype(str).values.tolist()))
        return {"sql": found.query, "rows": rows, "error": found.error_message, "errors": found.errors}

    def frame(text: str) -> Any:
        return database.get_df(text, schema=schema).astype(str).values.tolist()

    def pairs(asked: Callable[..., Any]) -> Any:
        return sorted(map(list, asked(catalog=None, schema=schema)), key=repr)

    def failing(text: str) -> Any:
        try:
            return frame(text)
        except Exception as error:  # noqa: BLE001 - what Superset makes of any error is asked about
            return [[one.error_type.value, one.message] for one in spec.extract_errors(error)]

    return {
        "engine": lambda: [spec.__name__, database.backend],
        "schemas": lambda: sorted(database.get_all_schema_names()),
        "tables": lambda: sorted(
            map(list, database.get_all_table_names_in_schema(catalog=None, schema=schema)), key=repr
        ),
        "views": lambda: sorted(
            map(list, database.get_all_view_names_in_schema(catalog=None, schema=schema)), key=repr
        ),
        "columns": lambda: [[one["column_name"], str(one["type"])] for one in database.get_columns(customer)],
        "indexes": lambda: database.get_indexes(customer),
        "primary key": lambda: database.get_pk_constraint(customer),
        "comment": lambda: database.get_table_comment(customer),
        "functions": lambda: sorted(database.function_names),
        "select star": lambda: database.select_star(customer, show_cols=True),
        "partition": lambda: spec.latest_partition(database, customer),
        "dataset": fetched,
        "rows": lambda: frame("SELECT id, name, email, region, spent FROM customer ORDER BY id"),
        "many rows": lambda: frame("SELECT sum(id), count(*) FROM (SELECT * FROM numbers LIMIT 2000)"),
        "chart": lambda: chart(None),
        **{f"chart by {grain}": partial(chart, grain) for grain in GRAINS},
        "no such table": lambda: failing("SELECT * FROM nothing"),
        "no such column": lambda: failing("SELECT nothing FROM customer"),
        "no SQL": lambda: failing("SELEKT 1"),
        "a value that fails": lambda: failing("SELECT CAST(name AS INT) FROM customer"),
    }


def answer(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - an error is an answer like another
        return {"raised": type(error).__name__, "message": str(error)}


def main(uri: str, schema: str, directory: str) -> None:
    file = Path(directory) / "superset_config.py"
    file.write_text(CONFIG.format(directory=directory))
    os.environ["SUPERSET_CONFIG_PATH"] = str(file)
    from superset.app import create_app

    app = create_app()
    with app.app_context(), app.test_request_context():
        from flask_appbuilder import Model
        from superset.extensions import db

        Model.metadata.create_all(db.engine)
        answers = {name: answer(work) for name, work in steps(uri, schema).items()}
    print()
    print(json.dumps(answers, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
