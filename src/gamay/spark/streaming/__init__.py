"""Structured Streaming with the format `gamay`: micro-batches of Spark go in as segments.

In: rows of micro-batches, on executors. Out: segments of a table, each batch shown once. Start at `sink.GamayStreamWriter`.
"""
