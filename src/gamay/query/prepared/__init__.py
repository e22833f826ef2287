"""Prepared queries: literals are inserted into the filter of a statement bound before, and few rows go straight into an
answer.

Input: queries, or the literals of their texts, and segments. Output: bound queries, filters, and answers of small queries.
Start with `statements`, then `lookup`.
Start at `statements`, then `lookup`.
"""
