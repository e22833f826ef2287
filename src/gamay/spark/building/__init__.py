"""Building of segments from files and DataFrames on executors: ranges, sorting, segment tasks, and pushing.

Start at `segments`.
"""
