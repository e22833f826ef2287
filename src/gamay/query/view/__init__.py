"""One segment as a query sees it: virtual columns, columns younger than the segment, reading blocks of rows.

Start at `virtual`.
"""
