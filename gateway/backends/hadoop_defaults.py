"""Hadoop's default settings without their descriptions, for an embedded Spark.

Every statement of Spark Connect runs in a thread of its own, and for each such thread the embedded metastore
reads Hadoop's defaults several times: 460 kB of XML, of which a tenth is names and values that such a Spark
has a use for. On its class path before the jars, the short ones are what is found.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

JAR = "hadoop-client-api-*.jar"
UNUSED = frozenset({"yarn-default.xml"})
"""Of these nothing is kept: an embedded Spark runs on this machine alone."""
SITES = ("core-site.xml", "mapred-site.xml", "yarn-site.xml")
"""What a cluster would have to say. One that is missing is looked for in each of 280 jars, every time."""
EMPTY = "<configuration/>"


def write_hadoop_defaults(jars: Path, directory: Path) -> None:
    """Write the default settings of the Hadoop in `jars` into files that everybody may read."""
    files = dict.fromkeys(SITES, EMPTY) | {
        name: EMPTY if name in UNUSED else short(text) for name, text in defaults(jars)
    }
    for name, text in files.items():
        file = directory / name
        file.write_text(text, encoding="utf-8")
        file.chmod(0o644)


def defaults(jars: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and text of each file of defaults in Hadoop's jar; none where there is no such jar."""
    for jar in jars.glob(JAR):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith("-default.xml") and "/" not in name:
                    yield name, archive.read(name)


def short(text: bytes) -> str:
    """Return a file of settings with each one's name, value and `final`, and nothing else."""
    root = ElementTree.fromstring(text)  # noqa: S314 - it comes out of the jar that Spark runs
    made = ElementTree.Element(root.tag)
    for setting in root.iterfind("property"):
        kept = ElementTree.SubElement(made, setting.tag)
        for name in ("name", "value", "final"):
            if (given := setting.find(name)) is not None:
                ElementTree.SubElement(kept, name).text = given.text
    return ElementTree.tostring(made, encoding="unicode")
