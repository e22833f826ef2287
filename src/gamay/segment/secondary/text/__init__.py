"""Text index: the words of a column's texts, each with the docs that contain it, for TEXT_MATCH.

In: texts; out: for a query in Lucene's syntax, exactly the rows that `gamay.functions.search.match` finds, which defines
words and queries. `inverting` converts texts to terms, tokens and postings, `index_type` has the layout on disk, `search`
runs queries. Why no search library is used: `docs/decisions/0013-text-index.md`.
"""
