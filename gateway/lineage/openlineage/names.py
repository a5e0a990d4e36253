"""What jobs and datasets are called in OpenLineage, by its naming specification.

A dataset is a namespace, which is the data source, and a name within it: `hive://metastore:9083` and
`sales.orders`, `s3://bucket` and `raw/orders`. The gateway's settings say which data source a catalog of
Spark is; a dataset of which nobody knows that is in the gateway's own namespace.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.database.texts import storable
from gateway.lineage.rows import SeenStatement, dataset_name
from gateway.model.lineage import Dataset, DatasetKind

JOB_PARTS = frozenset({"operation", "target", "user"})
"""Parts that the name of a job may consist of."""
_SESSIONS = uuid.UUID("0d3b8a52-6f0f-4c55-9a53-5c9f5b1f8a0e")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>.*)", re.DOTALL)
_SPELLINGS = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of file systems that are another's."""
_KEYS = frozenset({"s3", "gs", "abfs", "abfss", "wasb", "wasbs"})
"""Stores of objects: a name there is a key, which begins with no slash."""
_GLUE = "arn:aws:glue:"


class Identifier(NamedTuple):
    """A job or a dataset."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How this gateway names things."""

    namespace: str = "sluice"
    """Namespace of jobs, and of datasets whose data source has no configured name."""
    job: str = "{operation}.{target}"
    """Name of a statement's job, from `JOB_PARTS`."""
    catalogs: Mapping[str, str] = field(default_factory=dict)
    """Spark catalog, lower case → namespace of its tables. A path in it (`postgres://db:5432/sales`) is the
    first part of their names."""
    paths: str = "file"
    """Namespace of paths that name no file system."""

    def job_of(self, seen: SeenStatement) -> Identifier:
        """Return the job that a statement is a run of."""
        targets = seen.lineage.targets
        more = f"+{len(targets) - 1}" if len(targets) > 1 else ""
        name = self.job.format(
            operation=seen.lineage.operation.value,
            target=(dataset_name(targets[0], seen) if targets else "nothing") + more,
            user=storable(seen.user),
        )
        return Identifier(self.namespace, name)

    def session_of(self, seen: SeenStatement) -> tuple[str, Identifier] | None:
        """Return id and job of a statement's session, which is the parent of its run; None without one."""
        if not seen.session_id:
            return None
        # Clients of Spark Connect choose ids of sessions, so an id is one session of one user only.
        name = storable(f"{seen.user}\0{seen.session_id}")
        return str(uuid.uuid5(_SESSIONS, name)), Identifier(self.namespace, f"session.{storable(seen.user)}")

    def dataset(self, dataset: Dataset, seen: SeenStatement) -> Identifier:
        """Return what a dataset is called."""
        match dataset.kind:
            case DatasetKind.TABLE | DatasetKind.VIEW:
                return self._table(dataset, seen)
            case DatasetKind.PATH if dataset.parts and dataset.parts[-1]:
                return self.path(storable(dataset.parts[-1]))
            case DatasetKind.PATH | DatasetKind.TEMP_VIEW | DatasetKind.RESULT:
                return Identifier(self.namespace, dataset_name(dataset, seen))

    def path(self, location: str) -> Identifier:
        """Return what the files at a location are called. Logins in it are left out."""
        found = _URL.fullmatch(location)
        if found is None:
            return Identifier(self.paths, _trim(location))
        scheme = _SPELLINGS.get(found["scheme"].lower(), found["scheme"].lower())
        login, _, host = (found["authority"] or "").rpartition("@")
        authority = host if ":" in login or not login else f"{login}@{host}"
        namespace = f"{scheme}://{authority}" if authority else scheme
        path = _trim(found["path"] or "/")
        return Identifier(namespace, path.lstrip("/") or "/" if scheme in _KEYS else path)

    def _table(self, dataset: Dataset, seen: SeenStatement) -> Identifier:
        catalog, *within = dataset.parts or ("",)
        source = self.catalogs.get(catalog)
        if source is None or not within:
            return Identifier(self.namespace, dataset_name(dataset, seen))
        if source.startswith(_GLUE):
            return Identifier(source, storable("/".join(("table", *within))))
        name = storable(str(Dataset(dataset.kind, tuple(within))))
        scheme, slashes, rest = source.partition("://")
        authority, _, first = rest.partition("/")
        if slashes and first.strip("/"):
            return Identifier(f"{scheme}://{authority}", f"{first.strip('/')}.{name}")
        return Identifier(source.rstrip("/"), name)


def _trim(path: str) -> str:
    return path.rstrip("/") or "/"
