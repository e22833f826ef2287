"""Cached plans, keyed by the text of their statement, and filled with the constants of another one.

The input is a statement and its planner, the output its plan, new or from the cache. Start with `cache`.
"""
