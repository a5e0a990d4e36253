{{ config(materialized='view', persist_docs={'relation': true, 'columns': true}) }}
select region, count(*) as customers, sum(spent) as spent from {{ ref('customers') }} group by region
