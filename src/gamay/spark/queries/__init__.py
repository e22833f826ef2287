"""Queries over tables of a cluster, run by Spark, for those that are too large for brokers.

In: SQL over Gamay's tables, and Spark's tables and views. Out: a DataFrame that reads only the columns and rows of Gamay's
tables that the query needs, which `needs` determines. Start at `run.sql`.
"""
