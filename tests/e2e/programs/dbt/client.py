"""What dbt does with a small project, in one process; runs where `dbt-spark` is installed.

`client.py COMMANDS` with `DBT_…` in the environment: a JSON list of lists, such as `[["build"], ["docs",
"generate"]]`. Prints a JSON list: for each command, what came of each node, and all statements that dbt sent.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from dbt.cli.main import dbtRunner


def run(arguments: list[str], turn: int) -> dict[str, Any]:
    os.environ["DBT_TURN"] = str(turn)
    sent: list[tuple[str, str]] = []

    def note(event: Any) -> None:
        if event.info.name == "SQLQuery":
            sent.append((event.data.conn_name, event.data.sql))

    more = [] if arguments[0] == "debug" else ["--threads", "1", "--no-partial-parse"]
    done = dbtRunner(callbacks=[note]).invoke([*arguments, "--quiet", *more])
    results = getattr(done.result, "results", None) or []
    return {
        "success": done.success,
        "exception": None if done.exception is None else str(done.exception),
        "nodes": {
            one.node.unique_id: [str(one.status), one.message]
            for one in results
            if getattr(one, "node", None) is not None
        },
        "sent": sent,
    }


if __name__ == "__main__":
    json.dump([run(command, turn) for turn, command in enumerate(json.loads(sys.argv[1]))], sys.stdout)
