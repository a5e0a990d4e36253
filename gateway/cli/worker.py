"""One worker of a gateway: what a supervisor starts, and nobody else.

`python -m gateway.cli.worker SETTINGS PLACE`: PLACE says, as JSON, which worker it is and where its
supervisor is (`app.handed_connections.WorkerPlace`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import structlog

from gateway.app import exit_codes
from gateway.app.handed_connections import WorkerPlace
from gateway.cli.serve import serve_worker
from gateway.errors import Faults, SluiceError

log = structlog.get_logger(__name__)


def main(arguments: list[str]) -> int:
    config, told = Path(arguments[0]), json.loads(arguments[1])
    place = WorkerPlace(
        number=told["number"],
        directory=Path(told["directory"]),
        control=told["control"],
        ports=told["ports"],
    )
    structlog.contextvars.bind_contextvars(worker=place.number)
    try:
        serve_worker(config, place)
    except Faults as faults:
        for fault in faults.faults:
            print(fault, file=sys.stderr)
        return exit_codes.FAULTS
    except SluiceError as fault:
        print(f"sluice: {fault}", file=sys.stderr)
        return exit_codes.UNAVAILABLE
    return exit_codes.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
