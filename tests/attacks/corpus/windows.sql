# Windows look at rows that a result does not hold.
== neighbours
SELECT id, lag({secret}) OVER (ORDER BY id), lead({secret}) OVER (ORDER BY id) FROM {table}
SELECT id, first_value({secret}) OVER (ORDER BY id), last_value(name) OVER (ORDER BY id) FROM {table}
SELECT id, nth_value({secret}, 2) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM {table}
SELECT id, count(*) OVER () FROM {table}
SELECT id, count(*) OVER (PARTITION BY region) FROM {table}
SELECT id, sum(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM {table}
SELECT id, collect_list({secret}) OVER (ORDER BY id) FROM {table}
SELECT id, rank() OVER (ORDER BY {secret}), dense_rank() OVER (ORDER BY amount, id) FROM {table}
SELECT id, percent_rank() OVER (ORDER BY amount, id), cume_dist() OVER (ORDER BY id) FROM {table}
SELECT id, row_number() OVER (PARTITION BY {secret} ORDER BY id) FROM {table}
SELECT id FROM {table} ORDER BY row_number() OVER (ORDER BY amount DESC, id)
SELECT id, sum(id) OVER w FROM {table} WINDOW w AS (PARTITION BY region ORDER BY id)
SELECT id, max(id) OVER (ORDER BY born RANGE BETWEEN INTERVAL 100 YEARS PRECEDING AND INTERVAL 100 YEARS FOLLOWING) FROM {table}
SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id DESC) r FROM {table}) WHERE r = 1
SELECT id, lag(id, 1, -1) IGNORE NULLS OVER (ORDER BY id) FROM {table}
SELECT id, count(*) FILTER (WHERE region = '{region}') OVER () FROM {table}
SELECT count(*) FILTER (WHERE {secret} LIKE 'Q%') FROM {table}
SELECT region, count(*) FROM {table} GROUP BY ROLLUP (region)
SELECT region, {secret}, grouping_id(), count(*) FROM {table} GROUP BY CUBE (region, {secret})
SELECT count(*) FROM {table} GROUP BY GROUPING SETS ((region), ({secret}), ())
SELECT {secret}, count(*) FROM {table} GROUP BY {secret}
SELECT count(*) FROM {table} GROUP BY 'x'
SELECT {secret} AS s, count(*) FROM {table} GROUP BY s ORDER BY s
SELECT 1, count(*) FROM {table} GROUP BY 1 WITH ROLLUP
SELECT year(born), month(born), count(*) FROM {table} GROUP BY 1, 2
SELECT count(DISTINCT {secret}), approx_percentile(amount, 0.9), histogram_numeric(amount, 3) FROM {table}
SELECT window(CAST(born AS TIMESTAMP), '30 days'), count(*) FROM {table} GROUP BY 1
SELECT corr(amount, id), covar_pop(amount, id), stddev(amount), kurtosis(amount) FROM {table}
SELECT count_min_sketch({secret}, 0.5d, 0.5d, 1) FROM {table}
SELECT bitmap_construct_agg(bitmap_bit_position(id)), bitmap_count(bitmap_construct_agg(bitmap_bit_position(amount))) FROM {table}
SELECT hll_sketch_estimate(hll_sketch_agg(id)), any_value(region IS NOT NULL), every(id > 0) FROM {table}
SELECT try_sum(amount), try_avg(amount), array_agg({secret}) FROM {table} WHERE id < 3
SELECT id FROM {table} QUALIFY row_number() OVER (ORDER BY {secret}, id) = 1
SELECT id, count(*) OVER () AS n FROM {table} QUALIFY n > 1000
