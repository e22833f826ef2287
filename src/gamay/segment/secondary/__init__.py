"""Secondary indexes: derived from the columns of a segment, kept in files of their own beside them.

In: columns, and what a table config declares (`gamay.model.table.secondary_indexes`). Out: for a condition on columns, the
rows or the dictionary entries that can satisfy it (`gamay.segment.spi.SecondaryIndex`); `gamay.query.filter.resolve` asks
for them before it scans.

Start with `spi`, the contract of an index type, and `fst`, a small one. `registry` names the types, `files` has the layout
on disk, `build` makes them for a segment's folder, `growing` for the rows of a consuming segment, block by block.
"""
