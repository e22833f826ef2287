-- Each query gives the same rows in Gamay and in DuckDB; a line `==>` is what is written otherwise there.


-- joins

SELECT s.id, p.city FROM sales s JOIN shops p ON s.shop = p.shop
SELECT s.id, p.city FROM sales s LEFT JOIN shops p ON s.shop = p.shop AND p.area > 100
SELECT s.id, p.city FROM sales s RIGHT JOIN shops p ON s.shop = p.shop
SELECT s.id, p.city FROM sales s FULL JOIN shops p ON s.shop = p.shop
SELECT s.id, p.city FROM sales s FULL OUTER JOIN shops p ON s.shop = p.shop WHERE p.city IS NULL OR s.id < 20
SELECT shop, COUNT(*) FROM sales FULL JOIN shops USING (shop) GROUP BY shop
SELECT shop, city, qty FROM sales JOIN shops USING (shop) WHERE qty > 5
SELECT shop, qty, city FROM (SELECT shop, qty FROM sales) a NATURAL JOIN shops
SELECT s.id, p.city FROM sales s, shops p WHERE s.shop = p.shop AND s.qty = 3
SELECT COUNT(*) FROM sales CROSS JOIN shops
SELECT s.id, p.city FROM sales s JOIN shops p ON s.qty > p.area / 20.0
SELECT s.id, i.name, p.city FROM sales s JOIN items i ON s.item = i.item LEFT JOIN shops p ON p.shop = s.shop
SELECT a.id, b.id FROM sales a JOIN sales b ON a.item = b.item AND a.id < b.id WHERE a.qty = 9
SELECT s.id FROM sales s SEMI JOIN shops p ON s.shop = p.shop
SELECT s.id FROM sales s ANTI JOIN shops p ON s.shop = p.shop
SELECT p.city, SUM(s.qty) FROM shops p LEFT JOIN (sales s JOIN items i ON s.item = i.item) ON p.shop = s.shop GROUP BY p.city
SELECT s.id, p.area FROM sales s LEFT JOIN shops p ON s.shop = p.shop WHERE p.area > 90
SELECT s.id FROM sales s LEFT JOIN shops p ON s.shop = p.shop WHERE p.shop IS NULL
SELECT s.id, t.city FROM sales s, LATERAL (SELECT city FROM shops p WHERE p.shop = s.shop) t
SELECT s.id, t.n FROM sales s LEFT JOIN LATERAL (SELECT COUNT(*) n FROM shops p WHERE p.shop = s.shop) t ON TRUE

-- subqueries

SELECT id FROM sales WHERE shop IN (SELECT shop FROM shops WHERE area > 100)
SELECT id FROM sales WHERE shop NOT IN (SELECT shop FROM shops WHERE shop IS NOT NULL)
SELECT id FROM sales WHERE shop NOT IN (SELECT shop FROM shops)
SELECT id FROM sales s WHERE EXISTS (SELECT 1 FROM shops p WHERE p.shop = s.shop AND p.city = 'Lyon')
SELECT id FROM sales s WHERE NOT EXISTS (SELECT 1 FROM shops p WHERE p.shop = s.shop)
SELECT id FROM sales WHERE qty > (SELECT AVG(qty) FROM sales)
SELECT id, (SELECT MAX(area) FROM shops p WHERE p.shop = s.shop) FROM sales s
SELECT id FROM sales s WHERE qty = (SELECT MAX(qty) FROM sales t WHERE t.shop = s.shop)
SELECT id FROM sales WHERE qty >= ALL (SELECT qty FROM sales WHERE qty IS NOT NULL)
SELECT id FROM sales WHERE qty > ANY (SELECT area / 100 FROM shops WHERE area IS NOT NULL)
SELECT id FROM sales WHERE (shop, item) IN (SELECT shop, item FROM sales WHERE qty = 1)
SELECT id FROM sales WHERE (shop, qty) = ('s1', 3) LIMIT 1000
SELECT id FROM sales WHERE (shop, qty) < ('s2', 3) LIMIT 1000
SELECT shop, SUM(qty) FROM sales GROUP BY shop HAVING SUM(qty) > (SELECT AVG(qty) * 10 FROM sales)
SELECT shop, (SELECT city FROM shops p WHERE p.shop = s.shop) c, COUNT(*) FROM sales s GROUP BY shop
SELECT COUNT(*) FROM (SELECT DISTINCT shop, item FROM sales) x
SELECT x.s FROM (SELECT shop s, SUM(qty) q FROM sales GROUP BY shop) x WHERE x.q > 50 AND x.s <> 's2'

-- WITH

WITH a AS (SELECT shop, SUM(qty) q FROM sales GROUP BY shop) SELECT x.shop, y.q FROM a x JOIN a y ON x.shop = y.shop
WITH a (s, n) AS (SELECT shop, COUNT(*) FROM sales GROUP BY shop), b AS (SELECT MAX(n) m FROM a) SELECT s FROM a, b WHERE n = m
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT SUM(n) FROM r
WITH RECURSIVE r AS (SELECT 1 AS n, 1 AS f UNION SELECT n + 1, f * (n + 1) FROM r WHERE n < 8) SELECT n, f FROM r

-- set operations

SELECT shop FROM sales UNION SELECT shop FROM shops
SELECT shop FROM sales UNION ALL SELECT shop FROM shops
SELECT shop FROM sales INTERSECT SELECT shop FROM shops
SELECT shop FROM sales EXCEPT SELECT shop FROM shops
SELECT shop FROM sales INTERSECT ALL SELECT shop FROM shops
SELECT shop FROM sales EXCEPT ALL SELECT shop FROM shops
SELECT item FROM sales UNION SELECT area FROM shops ORDER BY 1 NULLS FIRST LIMIT 5
SELECT item, 'a' FROM sales UNION SELECT 1.5, city FROM shops
(SELECT shop FROM sales ORDER BY id LIMIT 3) UNION ALL (SELECT shop FROM shops WHERE area > 100)

-- windows

SELECT id, SUM(qty) OVER (PARTITION BY shop ORDER BY id) FROM sales
SELECT id, SUM(qty) OVER (PARTITION BY shop ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM sales
SELECT id, AVG(price) OVER (ORDER BY ts RANGE BETWEEN 7200000 PRECEDING AND CURRENT ROW) FROM sales
SELECT id, COUNT(*) OVER (ORDER BY qty GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES) FROM sales
SELECT id, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY id DESC), RANK() OVER (ORDER BY qty), DENSE_RANK() OVER (ORDER BY qty), NTILE(4) OVER (ORDER BY id) FROM sales
SELECT id, PERCENT_RANK() OVER (ORDER BY qty), CUME_DIST() OVER (ORDER BY qty) FROM sales
SELECT id, LAG(qty) OVER (ORDER BY id), LEAD(qty, 2, 0) OVER (ORDER BY id) FROM sales
SELECT id, FIRST_VALUE(qty) OVER w, LAST_VALUE(qty) OVER w, NTH_VALUE(qty, 2) OVER w FROM sales WINDOW w AS (PARTITION BY shop ORDER BY id)
SELECT id, qty FROM sales QUALIFY ROW_NUMBER() OVER (PARTITION BY shop ORDER BY qty DESC NULLS LAST, id) <= 2
SELECT shop, SUM(qty) s, RANK() OVER (ORDER BY SUM(qty) DESC) FROM sales GROUP BY shop
SELECT shop, SUM(SUM(qty)) OVER (ORDER BY shop) FROM sales GROUP BY shop
SELECT id, COUNT(*) FILTER (WHERE paid) OVER (PARTITION BY item) FROM sales
SELECT x.id, x.r FROM (SELECT id, shop, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY id) r FROM sales) x WHERE x.r = 1 AND x.shop = 's1'

-- groups

SELECT p.city, i.kind, COUNT(*), SUM(s.qty * s.price) FROM sales s JOIN shops p USING (shop) JOIN items i ON i.item = s.item GROUP BY p.city, i.kind
SELECT p.city, i.kind, SUM(qty), GROUPING(p.city) g FROM sales s JOIN shops p USING (shop) JOIN items i ON i.item = s.item GROUP BY ROLLUP (p.city, i.kind)
SELECT p.city, SUM(qty) FROM sales s JOIN shops p USING (shop) GROUP BY GROUPING SETS ((p.city), ())
SELECT COUNT(DISTINCT i.kind), MIN(i.name), MAX(i.name), AVG(qty), STDDEV_POP(price) FROM sales s JOIN items i ON i.item = s.item
SELECT i.kind, SUM(qty) FILTER (WHERE paid), COUNT(*) FILTER (WHERE NOT paid) FROM sales s JOIN items i USING (item) GROUP BY i.kind
SELECT p.city c, COUNT(*) n FROM sales s JOIN shops p USING (shop) GROUP BY c HAVING n > 10 ORDER BY n DESC, c LIMIT 2
SELECT 1, SUM(big) FROM (SELECT big FROM sales WHERE big < 10) x
SELECT shop, SUM(big) FROM (SELECT * FROM sales WHERE big < 100 OR big IS NULL) x GROUP BY shop
SELECT SUM(qty), COUNT(qty), MIN(price) FROM (SELECT * FROM sales WHERE qty > 100) x
SELECT s.shop, LISTAGG(i.name, '|') WITHIN GROUP (ORDER BY i.name) FROM sales s JOIN items i USING (item) GROUP BY s.shop
==> SELECT s.shop, string_agg(i.name, '|' ORDER BY i.name) FROM sales s JOIN items i USING (item) GROUP BY s.shop

-- expressions

SELECT CASE WHEN qty > 5 THEN 'many' WHEN qty IS NULL THEN 'none' ELSE 'few' END c, COUNT(*) FROM (SELECT * FROM sales) x GROUP BY c
SELECT COALESCE(p.city, 'unknown'), COUNT(*) FROM sales s LEFT JOIN shops p USING (shop) GROUP BY 1
SELECT DISTINCT p.city, s.paid FROM sales s JOIN shops p USING (shop)
SELECT DISTINCT ON (shop) shop, id FROM sales ORDER BY shop, id DESC
SELECT UPPER(p.city) || '-' || s.shop FROM sales s JOIN shops p USING (shop) WHERE LENGTH(p.city) = 4
SELECT s.id FROM sales s JOIN shops p USING (shop) WHERE p.city LIKE 'L%' AND s.qty BETWEEN 2 AND 4 AND s.item IN (1, 2, 3)
SELECT s.id FROM sales s JOIN shops p USING (shop) WHERE s.qty + p.area > 125 OR (s.paid AND p.city = 'Nice')
SELECT s.id, s.qty IS DISTINCT FROM 3, s.paid IS NOT TRUE FROM sales s JOIN shops p USING (shop)
SELECT NULLIF(p.city, 'Lyon'), GREATEST(s.qty, 4), -s.qty, ABS(-s.qty) FROM sales s JOIN shops p USING (shop) WHERE s.qty > 0
VALUES (1, 'a'), (2, NULL)
SELECT v.b FROM (VALUES (1, 'x'), (2, 'y')) AS v (a, b) JOIN items ON items.item = v.a
SELECT id FROM sales ORDER BY (SELECT MIN(area) FROM shops p WHERE p.shop = sales.shop) DESC NULLS LAST, id LIMIT 7
SELECT p.city, s.id FROM sales s JOIN shops p USING (shop) ORDER BY s.qty DESC NULLS LAST, s.id LIMIT 5 OFFSET 3

-- what is written otherwise in DuckDB

SELECT i.name, u.tag FROM items i CROSS JOIN UNNEST(i.tags) AS u (tag)
==> SELECT name, unnest(tags) FROM items
SELECT i.name, u.tag, u.n FROM items i CROSS JOIN UNNEST(i.tags) WITH ORDINALITY AS u (tag, n)
==> SELECT name, unnest(tags), unnest(range(1, len(tags) + 1)) FROM items
SELECT x FROM UNNEST(ARRAY[3, 1, 2]) AS u (x)
==> SELECT unnest([3, 1, 2])
SELECT s.id, i.name FROM sales s JOIN items i ON s.item = i.item WHERE i.tags = 'a'
==> SELECT s.id, i.name FROM sales s JOIN items i ON s.item = i.item WHERE list_contains(i.tags, 'a')
SELECT s.id, s.qty / 3, s.qty % 3, s.big / 7 FROM sales s JOIN shops p USING (shop)
==> SELECT s.id, s.qty // 3, s.qty % 3, s.big // 7 FROM sales s JOIN shops p USING (shop)
SELECT a.id, b.id FROM sales a ASOF JOIN sales b MATCH_CONDITION (a.ts > b.ts) ON a.id = b.id + 1
==> SELECT a.id, b.id FROM sales a ASOF JOIN sales b ON a.id = b.id + 1 AND a.ts > b.ts
SELECT s.shop, DISTINCTCOUNT(i.kind), MODE(s.item), DISTINCTCOUNTHLL(s.ts) > 0 FROM sales s JOIN items i USING (item) GROUP BY s.shop
==> SELECT shop, n, min(item), TRUE FROM (SELECT s.shop, s.item, COUNT(*) c, MAX(COUNT(*)) OVER (PARTITION BY s.shop) m, MAX(k) n FROM sales s JOIN items i USING (item) JOIN (SELECT s.shop, COUNT(DISTINCT i.kind) k FROM sales s JOIN items i USING (item) GROUP BY s.shop) d ON d.shop IS NOT DISTINCT FROM s.shop GROUP BY s.shop, s.item) WHERE c = m GROUP BY 1, 2
SELECT dateTrunc('DAY', s.ts) d, p.city, COUNT(*) FROM sales s JOIN shops p USING (shop) GROUP BY d, p.city
==> SELECT s.ts - s.ts % 86400000 d, p.city, COUNT(*) FROM sales s JOIN shops p USING (shop) GROUP BY d, p.city
SELECT i.item, q.n FROM items i LEFT JOIN (SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop) q ON i.name = q.shop WHERE i.item IN (q.n, i.item)
SELECT i.item, s.area FROM items i LEFT JOIN shops s ON i.name = s.shop WHERE s.area IN (i.item, 3) OR i.item IN (s.area, i.item, 5)
SELECT i.item, s.area FROM items i FULL JOIN shops s ON i.name = s.shop WHERE 3 IN (s.area, i.item)
SELECT q.k, q.n FROM (SELECT CAST(NULL AS VARCHAR) AS k, COUNT(*) AS n FROM sales GROUP BY CAST(NULL AS VARCHAR)) q WHERE q.k IN (SELECT shop FROM shops) OR q.n > 3
SELECT q.k, q.n FROM (SELECT CAST(NULL AS VARCHAR) AS k, MAX(s.qty) AS n FROM sales s JOIN items i ON s.item = i.item GROUP BY CAST(NULL AS VARCHAR)) q WHERE q.k NOT IN (SELECT shop FROM shops WHERE shop IS NOT NULL) OR q.n > 3
