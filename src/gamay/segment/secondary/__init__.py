"""Secondary indexes: derived from the columns of a segment, stored in separate files.

In: columns, and the declarations of a table config (`gamay.model.table.secondary_indexes`). Out: for a condition on columns,
the rows or the dictionary entries that can satisfy it (`gamay.segment.spi.SecondaryIndex`); `gamay.query.filter.resolve`
queries them before it scans.

Start with `spi`, the interface of an index type, and `fst`, a small one. `registry` has the types, `files` the layout
on disk; `gamay.segment.write.secondary_indexes` builds them for a segment's folder, `growing` for blocks of rows of a
consuming segment.
"""
