"""One segment as a query sees it: virtual columns, columns added after the segment was built, reading of blocks of rows.

Start at `virtual`.
"""
