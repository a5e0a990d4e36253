{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id',
          on_schema_change='append_new_columns', enabled=env_var('DBT_FORMAT') != 'parquet') }}
select id, region, spent{% if is_incremental() %}, name{% endif %} from {{ ref('customers') }}
