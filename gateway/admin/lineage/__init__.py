"""Questions to the lineage graph over REST, below `/lineage` (docs/admin-api.md).

`api` takes requests and writes what is answered, `sight` decides of which columns the asker may know.
"""
