SELECT sum(l_extendedprice) / 7.0 AS avg_yearly
FROM lineitem, part
WHERE p_partkey = l_partkey
  AND p_brand IN ('Brand#23', 'Brand#34')
  AND p_container LIKE 'MED%'
  AND l_quantity < (
    SELECT 0.5 * avg(l_quantity)
    FROM lineitem
    WHERE l_partkey = p_partkey
  )
