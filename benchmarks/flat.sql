-- Q1 eight aggregates by two flags
SELECT l_returnflag, l_linestatus, SUM(l_quantity), SUM(l_extendedprice), SUM(l_extendedprice * (1 - l_discount)),
  SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)), AVG(l_quantity), AVG(l_discount), COUNT(*)
FROM flat WHERE l_shipdate <= 904694400000 GROUP BY l_returnflag, l_linestatus ORDER BY 1, 2 LIMIT 10
-- Q2 quotients by 50 sizes
SELECT p_size, AVG(l_extendedprice / l_quantity), MAX(l_extendedprice * (1 - l_discount) * (1 + l_tax))
FROM flat GROUP BY p_size ORDER BY p_size LIMIT 100
-- Q3 latest rows of a nation
SELECT l_orderkey, l_linenumber, l_shipdate, l_extendedprice FROM flat WHERE nation = 'FRANCE'
ORDER BY l_shipdate DESC, l_orderkey, l_linenumber LIMIT 20
-- Q4 six weeks of the sorted time
SELECT COUNT(*), SUM(l_extendedprice) FROM flat WHERE l_shipdate BETWEEN 794016000000 AND 797644800000 LIMIT 1
-- Q5 by clerk, one ship mode of seven
SELECT o_clerk, COUNT(*), AVG(l_extendedprice) FROM flat WHERE l_shipmode = 'AIR' GROUP BY o_clerk ORDER BY 2 DESC, 1 LIMIT 20
-- Q6 by customer, top 10
SELECT o_custkey, SUM(l_extendedprice) AS s FROM flat GROUP BY o_custkey ORDER BY s DESC LIMIT 10
-- Q7 pattern in texts
SELECT COUNT(*) FROM flat WHERE l_comment LIKE '%express%deposit%' LIMIT 1
-- Q8 by brand and type, one region of five
SELECT p_brand, p_type, SUM(l_extendedprice) AS s FROM flat WHERE region = 'ASIA' GROUP BY p_brand, p_type ORDER BY s DESC LIMIT 10
-- Q9 distinct customers by ship mode
SELECT l_shipmode, COUNT(DISTINCT o_custkey) FROM flat GROUP BY l_shipmode ORDER BY 1 LIMIT 10
-- Q10 product under three ranges
SELECT SUM(l_extendedprice * l_discount) FROM flat
WHERE l_shipdate BETWEEN 757382400000 AND 788918399999 AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24 LIMIT 1
-- Q11 top prices
SELECT l_orderkey, l_linenumber, l_extendedprice FROM flat ORDER BY l_extendedprice DESC, l_orderkey, l_linenumber LIMIT 10
-- Q12 conditional sums
SELECT l_shipmode, SUM(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END), COUNT(*)
FROM flat WHERE l_shipmode IN ('MAIL', 'SHIP') GROUP BY l_shipmode ORDER BY 1 LIMIT 10
-- Q13 range of a metric, one segment of five
SELECT MIN(o_totalprice), MAX(o_totalprice), AVG(o_totalprice) FROM flat WHERE c_mktsegment = 'BUILDING' LIMIT 1
-- Q14 by nation, all rows
SELECT nation, SUM(l_extendedprice), AVG(l_discount), MAX(l_quantity) FROM flat GROUP BY nation ORDER BY 2 DESC LIMIT 30
-- Q15 large orders
SELECT l_orderkey, SUM(l_quantity) AS q FROM flat GROUP BY l_orderkey HAVING SUM(l_quantity) > 300 ORDER BY q DESC, 1 LIMIT 100
-- Q16 alternatives
SELECT COUNT(*), SUM(l_quantity) FROM flat WHERE (p_brand = 'Brand#12' AND l_quantity < 11)
  OR (p_brand = 'Brand#23' AND l_quantity BETWEEN 10 AND 20) OR p_container = 'LG CASE' LIMIT 1
-- Q17 by supplier, the last two years
SELECT l_suppkey, COUNT(*), SUM(l_quantity) FROM flat WHERE l_shipdate >= 852076800000 GROUP BY l_suppkey ORDER BY 3 DESC, 1 LIMIT 10
-- Q18 two ranges of metrics
SELECT COUNT(*) FROM flat WHERE l_extendedprice > 50000 AND l_tax < 0.03 LIMIT 1
