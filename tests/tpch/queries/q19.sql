SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem, part
WHERE (
    p_partkey = l_partkey
    AND p_brand = 'Brand#12'
    AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG', 'SM BAG', 'SM JAR')
    AND l_quantity >= 1 AND l_quantity <= 1 + 20
    AND p_size BETWEEN 1 AND 25
    AND l_shipmode IN ('AIR', 'REG AIR')
    AND l_shipinstruct = 'DELIVER IN PERSON'
  )
  OR (
    p_partkey = l_partkey
    AND p_brand = 'Brand#23'
    AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK', 'MED CASE', 'MED DRUM')
    AND l_quantity >= 10 AND l_quantity <= 10 + 20
    AND p_size BETWEEN 1 AND 30
    AND l_shipmode IN ('AIR', 'REG AIR')
    AND l_shipinstruct = 'DELIVER IN PERSON'
  )
  OR (
    p_partkey = l_partkey
    AND p_brand = 'Brand#34'
    AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG', 'LG BAG', 'LG CAN')
    AND l_quantity >= 20 AND l_quantity <= 20 + 20
    AND p_size BETWEEN 1 AND 35
    AND l_shipmode IN ('AIR', 'REG AIR')
    AND l_shipinstruct = 'DELIVER IN PERSON'
  )
