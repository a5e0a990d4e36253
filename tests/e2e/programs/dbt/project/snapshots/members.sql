{% snapshot members %}
{{ config(target_schema=target.schema, unique_key='code', strategy='check', check_cols=['members']) }}
select code, members + {{ env_var('DBT_TURN') }} as members from {{ ref('countries') }} where code <> 'XX'
{% endsnapshot %}
