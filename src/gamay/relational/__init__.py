"""Queries of several tables or SELECTs: joins, subqueries, windows, set operations.

In goes `gamay.sql.relational.RelationalStatement`; out comes one answer. `gamay.relational.binder` makes a logical plan
(`gamay.relational.plan`) in which each column has an id of its own; `gamay.relational.rules` move conditions, columns and
aggregates towards the tables; what is left there are queries of one table (`gamay.relational.leaf`), answered by the engine
for those; `gamay.relational.render` writes what is above them as SQL for DuckDB, which `gamay.relational.engine` runs over
the rows of the leaves.
"""
