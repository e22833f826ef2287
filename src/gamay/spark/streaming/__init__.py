"""Structured Streaming with the format `gamay`: a sink of micro-batches, and a source of committed segments.

Sink. In: rows of micro-batches, on executors. Out: segments of a table, each batch published exactly once. Start at
`sink.GamayStreamWriter`.

Source. In: a table's snapshots. Out: the rows of new segments. Start at `source.GamayStreamReader`; `feed` determines which
segments are new, and defines the offsets.
"""
