"""Queries over tables of a cluster, run by Spark, for those that are too large for brokers.

In: SQL over tables of Gamay, and over tables and views of Spark beside them. Out: a DataFrame that reads of Gamay's tables
only the columns and rows that the query needs. Start at `run.sql`; what a query needs of a table is found by `needs`.
"""
