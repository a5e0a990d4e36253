"""What the gateway knows of Spark's tables: looked up when a statement needs it, kept for seconds.

`live` asks Spark, `static` reads a file; both answer the session's Catalog port. `known` keeps facts and
versions, `describe` and `types` read Spark's descriptions. `kinds` has every type of catalog that settings
may name; those that are asked at their own servers are beside it (`hive_metastore`, `iceberg_rest`,
`gravitino`), all of them `readable`.
"""
