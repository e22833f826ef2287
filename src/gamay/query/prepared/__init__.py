"""Queries of known shapes: literals go into the filter of a statement bound before, few rows straight into an answer.

In: queries, or the literals of their texts, and segments. Out: bound queries, filters, and the answers of small queries.
Start at `statements`, then `lookup`.
"""
