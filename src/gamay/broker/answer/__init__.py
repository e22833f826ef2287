"""A query from its text to its response.

Start at `runner`, then `planning` (what is asked of whom) and `execution` (asking, reducing).
"""
