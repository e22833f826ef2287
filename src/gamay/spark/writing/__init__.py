"""Writing DataFrames to tables: rows become hidden segments, which are published atomically with what they replace.

In: options, a table's schema and config. Out: the layout of segments (`layout`), then segments, or only their sizes
(`dry_run`). Start at `sink`.
"""
