"""Structured Streaming with the format `gamay`: micro-batches of Spark go in as segments, segments come out as rows.

In: rows of micro-batches, on executors. Out: segments of a table, each batch shown once. Start at `sink.GamayStreamWriter`.

And back, in: a table's snapshots. Out: the rows of segments that are new. Start at `source.GamayStreamReader`; what is new,
and how an offset is written, is `feed`.
"""
