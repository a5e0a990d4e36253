"""What the gateway knows of Spark's tables: looked up when a statement needs it, kept for seconds.

`live` asks Spark, `static` reads a file; both answer the session's Catalog port. `known` keeps facts and
versions, `describe` and `types` read Spark's descriptions. `kinds` has the types of catalogs that settings
name; those that are asked at their own servers are beside it (`hive_metastore`, `iceberg_rest`, `gravitino`),
all of them `readable`.
"""
