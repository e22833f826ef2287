"""Which segments can hold a matching row: at the broker by their records, at the server by what it has open."""
