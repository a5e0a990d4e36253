"""PyIceberg as a user has it: asks a catalog for what the lines of its input say, and prints what came of it.

Each line is JSON: `[user, password, action, arguments]`. It runs in an environment of its own.
"""

from __future__ import annotations

import json
import sys
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


def main() -> None:
    catalogs: dict[str, Catalog] = {}
    for line in sys.stdin:
        user, password, action, arguments = json.loads(line)
        try:
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
