"""How values lie in buffers: dictionaries, forward indexes, raw columns, the file's format."""
