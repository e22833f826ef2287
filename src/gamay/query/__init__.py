"""Query execution from the query model to the answer: pruning, executing on segments, reducing, encoding.

1. `gamay.sql.parser.parse_query` compiles the text to a `Query`.
2. `gamay.query.bind.binder.bind` resolves its columns in the schema, infers types, binds the aggregates and determines the
   kind; `gamay.query.bind.filters.FilterBinder` turns the WHERE clause into a tree of predicates
   (`gamay.query.bind.predicate.In`, …) whose literals `gamay.query.bind.coerce.coerce` converts to the columns' types.
3. On the broker, `gamay.query.prune.by_records.PruningTable` prunes the segments without matching rows.
4. On a server, `gamay.query.execute.executor.execute` takes over: `gamay.query.prune.by_segments.prune_segments` prunes
   further segments.
5. For each segment, `gamay.query.filter.apply.apply_filter` returns the matching rows: `gamay.query.filter.resolve.Resolver`
   consults dictionaries and indexes, and the rest becomes scans (`gamay.query.filter.scan.IdScan`, …).
6. The rows (`gamay.query.view.matches.DocScan`, …) are processed in blocks, read by `gamay.query.view.read.segment_reader`.
7. Selections keep rows (`gamay.query.selection.first_rows`, `gamay.query.selection.top_docs`); aggregations and DISTINCT
   build groups (`gamay.query.groupby.segment.group_segment`), or answer from metadata
   (`gamay.query.groupby.metadata.answer_from_metadata`). `gamay.query.pool.WorkPool` runs the tasks.
8. Back on the broker, `gamay.query.reduce.merge.reduce` merges the servers' results
   (`gamay.query.groupby.merge.merge_group_tables`) and finishes them: HAVING, ORDER BY, the expressions of SELECT
   (`gamay.query.groupby.ordering.finished_rows`).
9. `gamay.query.answer.response.encode` writes the response document.
"""
