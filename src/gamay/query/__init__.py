"""A query from its model to its answer: pruned, executed on segments, reduced, encoded.

1. `gamay.sql.parser.parse_query` makes a `Query` of the text.
2. `gamay.query.bind.binder.bind` finds its columns in the schema, knows all types, binds the aggregates and decides the
   kind; `gamay.query.bind.filters.FilterBinder` makes the WHERE clause a tree of predicates
   (`gamay.query.bind.predicate.In`, …) whose literals `gamay.query.bind.coerce.coerce` has brought into the columns' types.
3. At the broker, `gamay.query.prune.by_records.PruningTable` drops the segments that cannot hold a matching row.
4. At a server, `gamay.query.execute.executor.execute` takes over: `gamay.query.prune.by_segments.prune_segments` drops more
   of them.
5. For each segment, `gamay.query.filter.apply.apply_filter` gives the matching rows: `gamay.query.filter.resolve.Resolver`
   asks dictionaries and indexes, and what they cannot answer becomes scans (`gamay.query.filter.scan.IdScan`, …).
6. The rows (`gamay.query.view.matches.DocScan`, …) are walked in blocks, which `gamay.query.view.read.segment_reader` reads.
7. Selections keep rows (`gamay.query.selection.first_rows`, `gamay.query.selection.top_docs`); aggregations and DISTINCT
   make groups (`gamay.query.groupby.segment.group_segment`), or know the answer beforehand
   (`gamay.query.groupby.metadata.answer_from_metadata`). `gamay.query.pool.WorkPool` runs the parts.
8. Back at the broker, `gamay.query.reduce.merge.reduce` merges the servers' results
   (`gamay.query.groupby.merge.merge_group_tables`) and finishes them: HAVING, ORDER BY, the expressions of SELECT
   (`gamay.query.groupby.ordering.finished_rows`).
9. `gamay.query.answer.response.encode` writes the response document.
"""
