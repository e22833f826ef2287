"""Repartitioning of topics: copies the messages of one topic to another, partitioned by a table's partition function.

In: the topics' stream configs, a table's schema and config. Out: a streaming query. Start at `job`.
"""
