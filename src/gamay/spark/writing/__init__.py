"""How the rows of a DataFrame become segments of a table, apart from their upload.

In: options, a table's schema and config. Out: the layout of segments (`layout`), or, by `dry_run`, the segments that a write
would make, and their sizes. Start at `layout.WriteLayout`; `gamay.spark.segment_writer` uses it.
"""
