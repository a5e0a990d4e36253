"""What `files:` of the settings may hold: directories whose files become tables when they are first named."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gateway.files.places import overlap, parse_place
from gateway.model.files import FileSource, require_root
from gateway.settings.section import Count, Section

SourceName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
FormatName = Literal["parquet", "orc", "avro", "json", "csv", "delta"]


class FileSourceSettings(Section):
    """A directory whose files become tables when somebody with `promote` first names them."""

    root: Annotated[str, AfterValidator(require_root)]
    """URL of the directory: `file:/…`, `hdfs://…`, `s3a://…` or the like. With `file:` the gateway must see
    the same files as Spark, to check them for links."""
    database: SourceName | None = None
    """Database of Spark's session catalog for its tables, and no others; by default the source's name."""
    formats: tuple[FormatName, ...] = ("parquet", "orc", "avro", "json", "csv")
    """Formats, in the order in which they are tried. Directories of `delta` are recognised by their log,
    before all others; a log may name files anywhere: use it only if all writers may read what Spark can."""
    depth: Annotated[int, Field(strict=True, ge=1, le=16)] = 8
    """Names below the root that a path may have."""
    leaf_columns: Count = 800
    """Columns that a table may have, fields of structures counted one by one."""
    files: Count = 100_000
    """Files that a table may have when it is made."""
    auto_promote: bool = True
    """Whether files become a table when somebody who may names them. Otherwise by `ALTER TABLE … PROMOTE
    METADATA` and `sluice datasets promote`."""
    refresh_s: Annotated[float, Field(ge=0, le=31_536_000)] = 0.0
    """Seconds after which one of the gateways checks the files of a table again, one table after the other,
    and walks the source for directories that are no tables yet; 0: never. `sluice datasets list` shows the
    result."""
    walk: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 10_000
    """Directories that one round of such a walk checks; the next one goes on from there. 0: no walk."""
    schema_learning: bool = False
    """Whether a refresh gives a table the columns that its files have now. Whoever may select all columns
    sees new ones."""

    closed: bool = True
    """Whether a new table is closed to everybody but its promoter and `administrators` until a policy names
    it, without a pattern. Otherwise policies with wildcards open it at once."""
    administrators: tuple[str, ...] = ()
    """Groups to which new tables are not closed: for them only policies count."""
    pattern: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.*?{},\[\]^ +=@-]{0,256}$")] = ""
    """Glob of the names of files that count, such as `*.{csv,csv.gz}`; others are hidden, like those that
    Spark hides. Empty: all count."""

    def make_source(self, name: str) -> FileSource:
        """Return the source of that name."""
        return FileSource(
            name=name.lower(),
            root=self.root,
            database=(self.database or name).lower(),
            formats=self.formats,
            depth=self.depth,
            leaf_columns=self.leaf_columns,
            files=self.files,
            auto_promote=self.auto_promote,
            refresh_s=self.refresh_s,
            walk=self.walk,
            schema_learning=self.schema_learning,
            closed=self.closed,
            administrators=frozenset(self.administrators),
            pattern=self.pattern,
        )


def clashes(sources: Mapping[str, FileSourceSettings], catalogs: Mapping[str, str]) -> str:
    """Say which sources cannot be told apart from each other or from catalogs; empty when all can."""
    made = [source.make_source(name) for name, source in sources.items()]
    taken = {catalog.lower() for catalog in catalogs} | {
        "system",
        "session",
        "builtin",
        "global_temp",
        "spark_catalog",
    }
    for source in made:
        if source.name in taken:
            return f"`files` has a source `{source.name}` with the name of a catalog"
        if source.database in ("default", "global_temp", "system", "session"):
            return f"`files`: source `{source.name}` needs a database of its own, not `{source.database}`"
    for words, found in (("names", [s.name for s in made]), ("databases", [s.database for s in made])):
        if len(set(found)) != len(found):
            return f"two sources of `files` have the same {words}"
    for one, other in combinations(made, 2):
        if overlap(parse_place(one.root), parse_place(other.root)):
            return f"the sources `{one.name}` and `{other.name}` of `files` overlap"
    databases = {source.database: source.name for source in made}
    for source in made:
        if databases.get(source.name, source.name) != source.name:
            return (
                f"a source of `files` has the database `{source.name}`, which is the name of another source"
            )
    return ""
