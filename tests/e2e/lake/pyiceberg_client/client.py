"""PyIceberg and DuckDB as users have them: ask a catalog for what lines of input say, print what came of it.

Each line is JSON: `[user, password, action, arguments]`; DuckDB shows the password as a token. It runs in an
environment of its own.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog


def act(catalog: Catalog, action: str, arguments: list[Any]) -> Any:
    match action:
        case "namespaces":
            return sorted(".".join(one) for one in catalog.list_namespaces(*map(tuple, arguments)))
        case "tables":
            return sorted(".".join(one) for one in catalog.list_tables(tuple(arguments)))
        case "exists":
            return catalog.table_exists(tuple(arguments))
        case "rows":
            table = catalog.load_table(tuple(arguments))
            return sorted(table.scan().to_arrow().to_pylist(), key=str)
        case "rows at first":
            table = catalog.load_table(tuple(arguments))
            first = table.history()[0].snapshot_id
            return sorted(table.scan(snapshot_id=first).to_arrow().to_pylist(), key=str)
        case "append":
            name, rows = arguments
            table = catalog.load_table(tuple(name))
            import pyarrow

            table.append(pyarrow.Table.from_pylist(rows, schema=table.schema().as_arrow()))
            return len(table.snapshots())
        case "make":
            import pyarrow

            schema = pyarrow.schema([("id", pyarrow.int32()), ("note", pyarrow.string())])
            return str(catalog.create_table(tuple(arguments), schema).schema())
        case "rename column":
            name, old, new = arguments
            with catalog.load_table(tuple(name)).update_schema() as update:
                update.rename_column(old, new)
            return new
        case "drop":
            return catalog.drop_table(tuple(arguments))
    raise ValueError(action)


def ask_duckdb(token: str, texts: list[str]) -> Any:
    """Return the rows of the last of some statements, in a DuckDB that has the catalog as `lake`."""
    import duckdb

    url, warehouse = sys.argv[1:]
    with duckdb.connect() as connection:
        for name in ("httpfs", "avro", "iceberg"):
            package = importlib.import_module(f"duckdb_extension_{name}")
            (extension,) = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
            connection.execute(f"LOAD '{extension}'")
        connection.execute(f"CREATE SECRET s (TYPE iceberg, TOKEN '{token}')")
        connection.execute(f"ATTACH '{warehouse}' AS lake (TYPE iceberg, ENDPOINT '{url}', SECRET s)")
        *before, last = texts
        for text in before:
            connection.execute(text)
        return sorted(connection.execute(last).fetchall(), key=str)


def main() -> None:
    catalogs: dict[str, Catalog] = {}
    for line in sys.stdin:
        user, password, action, arguments = json.loads(line)
        try:
            if action == "duckdb":
                print(json.dumps({"answer": ask_duckdb(password, arguments)}, default=str), flush=True)
                continue
            if user not in catalogs:
                login = {"type": "basic", "basic": {"username": user, "password": password}}
                catalogs[user] = load_catalog(
                    "lake", type="rest", uri=sys.argv[1], warehouse=sys.argv[2], auth=login
                )
            answer: Any = {"answer": act(catalogs[user], action, arguments)}
        except Exception as error:  # noqa: BLE001 - whatever comes of it is told
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()
