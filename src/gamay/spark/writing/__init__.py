"""DataFrames to tables: rows to hidden segments, shown at once; what an overwrite replaces.

In: options, a table's schema and config. Out: the layout of segments (`layout`), then segments, or, by `dry_run`, how large
they would be. Start at `sink`.
"""
