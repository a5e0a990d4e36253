-- A view of a view, and what dbt calls ephemeral in between.
{{ config(materialized='view') }}
select r.region, r.customers, l.latest from {{ ref('regions') }} r join {{ ref('latest') }} l on r.region = l.region
