"""Indexes among a column's buffers. In: its rows. Out: what `Column.index` gives. Start with `spi` and `registry`."""
