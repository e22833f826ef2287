"""Indexes stored among a column's buffers. In: its rows. Out: the result of `Column.index`. See `spi` and `registry`."""
