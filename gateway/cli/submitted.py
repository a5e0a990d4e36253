"""What `spark-submit` runs: a job of the wheel that it brings along, on the Spark that it has started.

    spark-submit --py-files sluice_gateway-….whl submitted.py archive --config gateway.yaml

Spark puts the wheel on Python's path as it is. Rules, migrations and Java sources are files of it, so the
driver has it unpacked; Python workers import it from the wheel.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path


def main(argv: list[str]) -> int:
    """Run `sluice jobs run` with the arguments, from the wheel where there is one."""
    # Spark has put this file's directory first, and so the names of its neighbours.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != here]
    wheel = next((entry for entry in sys.path if _is_ours(entry)), None)
    packed: Path | None = None
    if wheel is not None:
        place = Path(tempfile.mkdtemp(prefix="sluice-"))
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        # Spark gives Python workers what ends so.
        packed = place / "sluice.zip"
        shutil.copyfile(wheel, packed)
        with zipfile.ZipFile(packed) as opened:
            opened.extractall(place / "wheel")
        sys.path.insert(0, str(place / "wheel"))
    from gateway.cli import main as command
    from gateway.jobs.spark import PY_FILE

    if packed is not None:
        os.environ[PY_FILE] = str(packed)

    return command(["jobs", "run", *argv])


def _is_ours(entry: str) -> bool:
    if not entry.endswith((".whl", ".zip")) or not zipfile.is_zipfile(entry):
        return False
    with zipfile.ZipFile(entry) as opened:
        return "gateway/cli/submitted.py" in opened.namelist()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
