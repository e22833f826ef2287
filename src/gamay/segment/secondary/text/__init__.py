"""Text index: the words of a column's texts, each with the docs that hold it, for TEXT_MATCH.

In: texts; out: for a query in Lucene's syntax, exactly the rows that `gamay.functions.search.match` finds, whose words and
whose queries these are. `inverting` makes terms, tokens and postings of texts, `index_type` has the layout on disk, `search`
answers. Why no search library: `docs/decisions/0013-text-index.md`.
"""
