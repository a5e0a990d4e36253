select id from {{ ref('customers') }} where region is null
