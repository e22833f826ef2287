"""A query from its text to its response.

Start at `runner`, then `planning` (which servers are asked for what) and `execution` (gathering and reducing).
"""
