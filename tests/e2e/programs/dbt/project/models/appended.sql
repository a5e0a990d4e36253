{{ config(materialized='incremental', incremental_strategy='append') }}
select id, email, joined from {{ ref('customers') }}
{% if is_incremental() %}
where id > (select coalesce(max(id), 0) from {{ this }}) - 2
{% endif %}
