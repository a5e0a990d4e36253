{{ config(materialized='table') }}
select id, name, email, region, joined, spent from {{ source('shop', 'customer') }}
