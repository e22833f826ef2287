"""Encoding of values in buffers: dictionaries, forward indexes, raw columns, the file format."""
