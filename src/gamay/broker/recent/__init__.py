"""The last queries of a broker with what each cost, in memory.

In comes each query that has ended, out go those that a principal may know of, as REST tells them. Start at `queries`.
"""
