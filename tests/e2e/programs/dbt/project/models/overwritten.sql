{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['region'],
          file_format='parquet') }}
select id, email, region from {{ ref('customers') }}
{% if is_incremental() %}
where region = 'EMEA'
{% endif %}
