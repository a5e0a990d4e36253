"""What an administrator does with Gravitino's own client; runs where `apache-gravitino` is installed.

`client.py URL METALAKE fill` makes catalogs, tags, roles, members and owners; `… look` prints them as JSON.
"""

from __future__ import annotations

import json
import sys

from gravitino import Catalog, GravitinoClient
from gravitino.api.authorization.owner import Owner
from gravitino.api.authorization.privileges import Privileges
from gravitino.api.authorization.securable_objects import SecurableObjects
from gravitino.api.metadata_object import MetadataObject
from gravitino.api.metadata_objects import MetadataObjects

POSTGRESQL = {"jdbc-url": "jdbc:postgresql://db/shop", "jdbc-driver": "org.postgresql.Driver"}


def fill(client: GravitinoClient) -> None:
    relational = Catalog.Type.RELATIONAL
    client.create_catalog("shop", relational, "jdbc-postgresql", "the shop", POSTGRESQL)
    client.create_catalog("odd", relational, "jdbc-nobody-knows", "", {})
    client.create_catalog("raw", Catalog.Type.FILESET, "hadoop", "", {"location": "file:/raw"})
    client.create_tag("PII", "of people", {"level": "3"})
    client.load_catalog("shop").supports_tags().associate_tags(["PII"], [])
    reads = [Privileges.allow("USE_CATALOG"), Privileges.deny("SELECT_TABLE")]
    client.create_role("reader", {}, [SecurableObjects.of_catalog("shop", reads)])
    client.add_user("ann")
    client.add_group("staff")
    client.grant_roles_to_user(["reader"], "ann")
    client.grant_roles_to_group(["reader"], "staff")
    shop = MetadataObjects.of("shop", MetadataObject.Type.CATALOG)
    client.set_owner(shop, "olga", Owner.Type.USER)


def look(client: GravitinoClient) -> None:
    shop = MetadataObjects.of("shop", MetadataObject.Type.CATALOG)
    owner = client.get_owner(shop)
    found = {
        "catalogs": sorted(one.name() for one in client.list_catalogs_info()),
        "tags": client.list_tags(),
        "roles": client.list_role_names(),
        "users": [[one.name(), one.roles()] for one in client.list_users()],
        "groups": [[one.name(), one.roles()] for one in client.list_groups()],
        "owner": [owner.name(), owner.type().name],
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    url, metalake, what = sys.argv[1:]
    {"fill": fill, "look": look}[what](GravitinoClient(uri=url, metalake_name=metalake))
