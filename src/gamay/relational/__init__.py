"""Relational queries, over several tables or SELECTs: joins, subqueries, windows, set operations.

The input is a `gamay.sql.relational.RelationalStatement`, the output one result. `gamay.relational.binder` makes a logical
plan (`gamay.relational.plan`) in which each column has a unique id; `gamay.relational.rules` push conditions, columns and
aggregates towards the tables; what remains there are queries of one table (`gamay.relational.leaf`), answered by the
single-table engine; `gamay.relational.render` writes the operators above them as SQL for DuckDB, which
`gamay.relational.engine` runs over the rows of the leaves.
"""
