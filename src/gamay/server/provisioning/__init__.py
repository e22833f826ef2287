"""How many hosts a table needs that consumes a stream, told from a sample."""
