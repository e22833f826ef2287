"""Reduce: from partial results of servers to the answer: merged by value, HAVING, ORDER BY, LIMIT, gap filling, encoded.

Start at `merge`.
"""
